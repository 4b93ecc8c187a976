"""Time whole runs of two workers that print a line, on one host.

    python benchmarks/start.py [--rounds 7]
    python benchmarks/start.py --before REV         this dsrun and a commit's, in turns, no others
    python benchmarks/start.py --cpu                processor time, for a machine that is busy

All contenders except the peers run in a plain virtual environment created for this. The bare
processes, started by a shell that waits for them, are a lower bound for every launcher.
"""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import sys
import venv
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from shutil import which
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.checkouts import checkout_of
from benchmarks.measure import (
    CHECKOUT,
    WORKERS,
    Figures,
    Measure,
    bar,
    command_cpu,
    command_time,
    take_turns,
)
from benchmarks.peers import python_peer

if TYPE_CHECKING:
    from collections.abc import Callable

MPIRUN = ("mpirun", "--allow-run-as-root", "--oversubscribe", "-n", "2")


def main() -> None:
    """Measure and print the times."""
    parser = argparse.ArgumentParser(description="Time two workers that print a line on one host.")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--deepspeed_rounds", type=int, default=3)
    parser.add_argument("--before", metavar="REV", help="a commit, or another checkout of dsrun")
    parser.add_argument("--cpu", action="store_true", help="measure processor time")
    options = parser.parse_args()
    timed = command_cpu if options.cpu else command_time
    with ExitStack() as stack:
        folder = stack.enter_context(TemporaryDirectory())
        before = stack.enter_context(checkout_of(options.before)) if options.before else None
        venv.create(folder, symlinks=True)
        # Not in a checkout, whose .venv would be the workers' Python.
        hello = shutil.copy(WORKERS / "hello.py", folder)
        commands = ours(f"{folder}/bin/python", hello, before)
        if not options.before:
            commands |= peers(f"{folder}/bin/python", hello)
        fewer = {"deepspeed": options.deepspeed_rounds}
        report(take_turns(measures(commands, timed), options.rounds, fewer))


def ours(python: str, hello: str, before: Path | None) -> dict[str, list[str]]:
    """Return the commands of the plain environment, by contender."""
    worker = shlex.join([python, hello])
    checkouts = {"dsrun": CHECKOUT} | ({"before": before} if before else {})
    two = ["--launcher", "local", "--num_gpus", "2", hello]
    return {
        "bare": ["sh", "-c", f"{worker} & {worker} & wait"],
        **{name: [python, str(path / "bin" / "dsrun"), *two] for name, path in checkouts.items()},
    }


def peers(python: str, hello: str) -> dict[str, list[str]]:
    """Return the other launchers' commands, by contender."""
    return {
        "torchrun": [python_peer("torchrun"), "--nproc_per_node", "2", hello],
        "deepspeed": [python_peer("deepspeed"), "--num_gpus", "2", hello],
        **({"mpirun": [*MPIRUN, python, hello]} if which(MPIRUN[0]) else {}),
    }


def measures(commands: dict[str, list[str]], timed: Callable[..., float]) -> dict[str, Measure]:
    """Return a timer for each command, with the folder of its program first on PATH."""
    return {
        name: partial(timed, argv, "worker here", 2, env=_environ(argv[0]))
        for name, argv in commands.items()
    }


def _environ(program: str) -> dict[str, str]:
    folder = f"{Path(program).parent}{os.pathsep}" if "/" in program else ""
    return {**os.environ, "PATH": folder + os.environ["PATH"]}


def report(figures: Figures) -> None:
    """Print the results, with their limits."""
    print(figures.table("1 host x 2", "dsrun"))
    bar("extra time of dsrun over the bare processes, s", figures.excess("dsrun", "bare"), 0.08)
    if "before" in figures.values:
        before = figures.excess("before", "bare")
        print(
            f"the same before, s: {before:.3g}; now {figures.excess('dsrun', 'bare') / before:.2f}"
        )
    for peer, least in (("torchrun", 15), ("deepspeed", 40)):
        if peer in figures.values:
            bar(f"{peer} to dsrun", figures.ratio(peer, "dsrun"), least, at_least=True)


if __name__ == "__main__":
    main()
