"""Measure how many faults the simulated worlds find.

    python -m tests.simulation.measure --old                  those of old_faults.py
    python -m tests.simulation.measure --random 20 --seed 1   some by chance
    python -m tests.simulation.measure --old --only guard     those with this in their names

Each fault is put into a copy of the checkout, and worlds are played there until one has a problem:
the kept ones first, then the seeds from 0 on that are clean without a fault. A world that does not
end is found as well.
"""

from __future__ import annotations

import argparse
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ..planted_faults import ISOLATED, choose, diff
from ..support.checkout import CHECKOUT
from .old_faults import OLD_FAULTS, OUT_OF_REACH, replant
from .scenario import WITH_ENGINES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from ..planted_faults import Plant

MODULES = (
    "launcher/node/session/session.py",
    "launcher/node/session/session_state.py",
    "launcher/node/run/run.py",
    "launcher/node/run/run_state.py",
    "launcher/node/workers/group.py",
    "launcher/node/workers/group_state.py",
    "launcher/node/guard.py",
    "launcher/node/elastic/rounds.py",
    "launcher/node/elastic/rounds_state.py",
    "launcher/node/machine/descendants.py",
    "launcher/head/fleet/fleet.py",
    "launcher/head/run/run.py",
    "launcher/head/run/run_state.py",
    "launcher/head/run/fleet_events.py",
    "launcher/head/run/node_frames.py",
    "launcher/head/elastic/rounds.py",
    "launcher/head/elastic/runner_rounds.py",
    "launcher/control/connection.py",
)
"""The modules in which faults are planted by chance."""

MEMORY = 2 << 30
"""Bytes that worlds may use: a fault may let a list grow without an end."""

SECONDS = 1800.0
"""Seconds that the worlds of one fault may take."""


_TELLS = re.compile(r"found by |clean: |.* with problems: ")


class Case(NamedTuple):
    """A fault: its name, what it changes, and how it gets into a copy."""

    name: str
    text: str
    plant: Callable[[Path], object]


def old_cases() -> list[Case]:
    """Return the old faults that worlds can have."""
    bugs = [bug for bug in OLD_FAULTS if bug not in OUT_OF_REACH]
    return [Case(bug, "", partial(replant, bug)) for bug in bugs]


def random_cases(count: int, seed: int) -> list[Case]:
    """Return faults by chance, spread evenly over `MODULES`."""
    cases = []
    for plant in choose(MODULES, count, seed):
        before = (CHECKOUT / plant.module).read_bytes()[: plant.fault.start]
        line = before.count(b"\n") + 1
        name = f"{plant.module}:{line} {plant.fault.kind}"
        cases.append(Case(name, diff(plant), partial(spoil, plant)))
    return cases


def spoil(plant: Plant, copy: Path) -> None:
    """Put a fault by chance into a copy."""
    path = copy / plant.module
    path.write_text(plant.fault.spoil(path.read_text()))


@contextmanager
def copied() -> Iterator[Path]:
    """Have a copy of the files of the checkout that git knows."""
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=CHECKOUT, capture_output=True, check=True
    )
    with tempfile.TemporaryDirectory(prefix="worlds-") as folder:
        for name in map(os.fsdecode, listed.stdout.split(b"\0")[:-1]):
            target = Path(folder, name)
            target.parent.mkdir(parents=True, exist_ok=True)
            if os.path.lexists(CHECKOUT / name):
                shutil.copy2(CHECKOUT / name, target, follow_symlinks=False)
        yield Path(folder)


def play(copy: Path, *options: str) -> str:
    """Play worlds in a copy; return the last line that says what was found."""

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))

    command = [sys.executable, "-m", "tests.simulation", "--jobs", "1", *options]
    try:
        result = subprocess.run(
            [*ISOLATED, *command],
            cwd=copy,
            env={**os.environ, "PYTHONPATH": str(copy / "tests" / "import")},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
            preexec_fn=limit,
        )
    except subprocess.TimeoutExpired:
        return "found: it took too long"
    lines = (result.stdout.strip() or result.stderr.strip()).splitlines()
    lines = [line for line in lines if _TELLS.match(line)] or lines
    return lines[-1] if lines else f"found: exit code {result.returncode}"


def _seeds(worlds: int) -> str:
    """Return so many seeds, a fifth of them of jobs that an engine starts."""
    engines = worlds // 5
    return f"0-{worlds - engines - 1},{WITH_ENGINES}-{WITH_ENGINES + engines - 1}"


def unclean(worlds: int) -> list[str]:
    """Return the seeds that have problems without a fault."""
    with copied() as copy:
        told = play(copy, "--seeds", _seeds(worlds))
    return re.findall(r"\d+", told.rpartition("with problems")[2])


def measure(cases: Sequence[Case], worlds: int, without: Sequence[str]) -> int:
    """Plant each and play; print what came of it; return how many were found."""
    found = 0
    for case in cases:
        with copied() as copy:
            case.plant(copy)
            given = ("--without", *without) if without else ()
            told = play(copy, "--first", "--seeds", _seeds(worlds), *given)
        found += not told.startswith("clean")
        print(f"{case.name}: {told}", flush=True)
        if case.text and told.startswith("clean"):
            print(case.text, flush=True)
    return found


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--old", action="store_true", help="the old faults")
    parser.add_argument("--random", type=int, default=0, metavar="N", help="N faults by chance")
    parser.add_argument("--seed", type=int, default=1, help="what chance starts from (1)")
    parser.add_argument("--only", default="", help="those whose names have this alone")
    parser.add_argument("--worlds", type=int, default=1000, help="seeds for each fault (1000)")
    parser.add_argument("--trust", action="store_true", help="take all seeds for clean ones")
    given = parser.parse_args()
    cases = [*(old_cases() if given.old else ()), *random_cases(given.random, given.seed)]
    cases = [case for case in cases if given.only in case.name]
    without = [] if given.trust else unclean(given.worlds)
    found = measure(cases, given.worlds, without)
    print(f"{found} of {len(cases)} found; seeds left out: {', '.join(without) or 'none'}")


if __name__ == "__main__":
    main()
