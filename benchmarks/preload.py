"""Measure eight ranks on one host: the time to their first step of DDP, and their memory.

    python benchmarks/preload.py [--rounds 5] [--ranks 8] [--before CHECKOUT]

torchrun, dsrun, and dsrun with --preload torch,torch._dynamo start the same script, with the same
Python and torch, on this machine. The time runs from the command until the last rank has finished
its first step with all others. The memory is the proportional set size of the ranks, in which
shared pages count once in total.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.measure import CHECKOUT, WORKERS, Figures, Unfit, bar, dsrun_of, take_turns
from tests.support.limits import wait_for

STEP = str(WORKERS / "step.py")
PRELOAD = ("--preload", "torch,torch._dynamo")
PEER, OURS = "torchrun", "dsrun --preload"
NOBODY = "-1"
"""The rank that fails."""

FASTER, SMALLER = 0.35, 0.6
"""The limits of start and memory with --preload, as shares of torchrun's."""


def main() -> None:
    """Measure and print the times."""
    parser = argparse.ArgumentParser(description="Time the start of many ranks that import torch.")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--ranks", type=int, default=8)
    parser.add_argument("--before", type=Path, metavar="CHECKOUT", help="another checkout of dsrun")
    options = parser.parse_args()
    found = commands(options.ranks, {"before, ": options.before} if options.before else {})
    memory: dict[str, list[float]] = {name: [] for name in found}
    measures = {
        name: partial(measure, command, options.ranks, memory[name])
        for name, command in found.items()
    }
    times = take_turns(measures, options.rounds)
    report(times, Figures(memory), options.ranks)


def commands(ranks: int, others: Mapping[str, Path]) -> dict[str, list[str]]:
    """Return the commands, without the script's arguments."""
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    found = {PEER: [*torchrun, f"--nproc_per_node={ranks}", STEP]}
    for which, checkout in {"": CHECKOUT, **others}.items():
        one_host = ("--launcher", "local", "--accelerator", "cpu", "--num_gpus", str(ranks))
        start = [*dsrun_of(checkout), *one_host, "--no_local_rank"]
        found[f"{which}dsrun"] = [*start, STEP]
        found[f"{which}{OURS}"] = [*start, *PRELOAD, STEP]
    return found


def measure(command: list[str], ranks: int, memory: list[float]) -> float:
    """Return the seconds until all ranks have finished a step, and record their memory in MB.

    Raises:
        Unfit: the command ended before that.
        TimeoutError: after five minutes.
    """
    with TemporaryDirectory() as folder, (Path(folder) / "log").open("w+b") as log:
        notes = [Path(folder) / f"up-{rank}" for rank in range(ranks)]
        began = time.monotonic()
        runner = subprocess.Popen([*command, folder, NOBODY], stdout=log, stderr=log)

        def up() -> bool:
            if runner.poll() is not None:
                raise Unfit(f"{command} ended:\n{(Path(folder) / 'log').read_text()}")
            return all(note.exists() for note in notes)

        try:
            wait_for(up, "the first step", seconds=300)
            taken = max(float(note.read_text()) for note in notes) - began
            memory.append(sum(map(proportional, workers(folder))))
        finally:
            runner.terminate()
            runner.wait()
    return taken


def workers(folder: str) -> list[int]:
    """Return the pids of the ranks that left notes in a folder."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            command = (process / "cmdline").read_bytes().split(b"\0")
            variables = (process / "environ").read_bytes().split(b"\0")
        except OSError:
            continue
        if os.fsencode(folder) in command and any(one.startswith(b"RANK=") for one in variables):
            found.append(int(process.name))
    return found


def proportional(pid: int) -> float:
    """Return the proportional set size of a process in MB (proc(5), smaps_rollup)."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith("Pss:")) / 1000


def report(times: Figures, memory: Figures, ranks: int) -> None:
    """Print both, with their limits."""
    print(times.table(f"{ranks} ranks to their first DDP step", PEER))
    print(memory.table(f"memory (PSS) of {ranks} ranks", PEER, "MB"))
    bar(f"{OURS}, ratio to {PEER}, first step", times.ratio(OURS, PEER), FASTER)
    bar(f"{OURS}, ratio to {PEER}, memory", memory.ratio(OURS, PEER), SMALLER)


if __name__ == "__main__":
    main()
