"""Time whole runs with 400,000 lines of 100 bytes from two ranks on one host.

    python benchmarks/output.py [--rounds 5] [--lines 400000]

The reader of the output only counts lines. Bare processes and `dsrun --prefix ''` do not label the
lines; the others do. With --fold, a line that both ranks print at almost the same time is printed
once; with "own lines" the ranks print different lines, so there is nothing to fold.
"""

from __future__ import annotations

import argparse
import os
import shlex
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.measure import DSRUN, WORKERS, Measure, Unfit, bar, take_turns
from benchmarks.peers import python_peer, slurm, system_peer

SCRIPT = str(WORKERS / "lines.py")
BARE, BASE, FOLD = "bare, unlabelled", "dsrun", "dsrun --fold"


def main() -> None:
    """Measure and print the times."""
    parser = argparse.ArgumentParser(description="Time many lines from two ranks.")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument(
        "--lines", type=int, default=400_000, help="total number of lines from both ranks"
    )
    options = parser.parse_args()
    with TemporaryDirectory() as logs:
        measures: dict[str, Measure] = {
            name: partial(read_all, argv, options.lines // (2 if name == FOLD else 1))
            for name, argv in commands(str(options.lines // 2), logs).items()
        }
        figures = take_turns(measures, options.rounds)
    print(figures.table(f"{options.lines} lines", BASE))
    bar("extra time of dsrun, s", figures.excess(BASE, BARE), 0.8)
    for peer in {"mpirun --tag-output", "srun -l"} & figures.values.keys():
        bar(f"dsrun to {peer}", figures.ratio(BASE, peer), 1.0)


def commands(lines: str, logs: str) -> dict[str, list[str]]:
    """Return the commands for two ranks with this many lines each, by contender."""
    worker = shlex.join([sys.executable, SCRIPT, lines])
    here = [*DSRUN, "--launcher", "local", "--num_gpus", "2", "--no_local_rank"]
    found = {
        BARE: ["sh", "-c", f"{worker} & {worker} & wait"],
        BASE: [*here, SCRIPT, lines],
        "dsrun --prefix ''": [*here, "--prefix", "", SCRIPT, lines],
        FOLD: [*here, "--fold", SCRIPT, lines],
        "dsrun --fold, own lines": [*here, "--fold", SCRIPT, lines, "own"],
    }
    python = [sys.executable, SCRIPT, lines]
    if mpirun := system_peer("mpirun"):
        two = ["--allow-run-as-root", "--oversubscribe", "-np", "2"]
        found["mpirun --tag-output"] = [mpirun, *two, "--tag-output", *python]
    if srun := slurm():
        found["srun -l"] = [srun, "-n2", "-l", *python]
    torchrun = [python_peer("torchrun"), "--nproc_per_node", "2", "--log_dir", logs, "--tee", "3"]
    return {**found, "torchrun --tee 3": [*torchrun, SCRIPT, lines]}


def read_all(argv: list[str], lines: int) -> float:
    """Run a command, read all its output, and return the seconds until its end.

    Raises:
        Unfit: it failed, or printed fewer lines.
    """
    began = time.monotonic()
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert process.stdout
        found = 0
        while block := os.read(process.stdout.fileno(), 1 << 20):
            found += block.count(b"\n")
    taken = time.monotonic() - began
    if process.returncode or found < lines:
        raise Unfit(f"{argv} ended with {process.returncode} after {found} lines")
    return taken


if __name__ == "__main__":
    main()
