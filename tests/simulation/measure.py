"""Measure how many faults the simulated worlds find.

    python -m tests.simulation.measure --old                  those of old_faults.py
    python -m tests.simulation.measure --old --only guard     those with this in their names, anew
    python -m tests.simulation.measure --random 20 --seed 1   some by chance

Each fault is put into a copy of the checkout, and worlds are played there until one has a problem.
A world that does not end is found as well. For an old fault the seeds go on with another start
after each find, and how many it took is recorded in `tests/recorded/old_faults.json`; what is
recorded is measured again only if it is named. Faults by chance have the kept worlds first.
"""

from __future__ import annotations

import argparse
import datetime
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
from .finds import RECORD, STARTS, Find, Measured, recorded, written
from .old_faults import OLD_FAULTS, OUT_OF_REACH, replant
from .reached import mark_all
from .seeds import mixed

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from ..planted_faults import Plant

MODULES = (
    "launcher/node/session/session.py",
    "launcher/node/session/session_state.py",
    "launcher/node/run/run.py",
    "launcher/node/run/run_state.py",
    "launcher/node/workers/group.py",
    "launcher/node/workers/group_state.py",
    "launcher/node/guard.py",
    "launcher/features/elastic/node_rounds.py",
    "launcher/features/elastic/node_rounds_state.py",
    "launcher/node/machine/descendants.py",
    "launcher/head/fleet/fleet.py",
    "launcher/head/run/run.py",
    "launcher/head/run/run_state.py",
    "launcher/head/run/fleet_events.py",
    "launcher/head/run/node_frames.py",
    "launcher/features/elastic/runner_rounds.py",
    "launcher/features/elastic/runner_policy.py",
    "launcher/control/connection.py",
)
"""The modules in which faults are planted by chance."""

MEMORY = 2 << 30
"""Bytes that worlds may use: a fault may let a list grow without an end."""


class Case(NamedTuple):
    """A fault: its name, what it changes, and how it gets into a copy."""

    name: str
    text: str
    plant: Callable[[Path], object]


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


def play(copy: Path, seeds: Sequence[int], *options: str) -> list[str]:
    """Play worlds in a copy; return the lines that were printed."""

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))

    command = [sys.executable, "-m", "tests.simulation", *options, "--seeds", _told(seeds)]
    result = subprocess.run(
        [*ISOLATED, *command],
        cwd=copy,
        env={**os.environ, "PYTHONPATH": str(copy / "tests" / "import")},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=limit,
    )
    return (result.stdout.strip() or result.stderr.strip()).splitlines()


def finds_in(copy: Path, seeds: Sequence[int], finds: int, *options: str) -> list[tuple[str, str]]:
    """Play worlds until so many have a problem; return which, and what is told of each.

    Raises:
        RuntimeError: they could not be played.
    """
    lines = play(copy, seeds, "--finds", str(finds), *options)
    if not lines or not lines[-1].endswith(" worlds"):
        raise RuntimeError("\n".join(lines))
    found = (line.removeprefix("found by ").partition(": ") for line in lines if _tells(line))
    return [(name, told) for name, _, told in found]


def _tells(line: str) -> bool:
    return line.startswith("found by ")


def _told(seeds: Sequence[int]) -> str:
    return ",".join(map(str, seeds))


def clean_seeds(worlds: int) -> dict[int, set[str]]:
    """Return the seeds without a problem, and which old faults each would meet."""
    with copied() as copy:
        mark_all(copy)
        lines = play(copy, mixed(worlds), "--reached")
    told = [line.split()[1:] for line in lines if line.startswith("clean: ")]
    if not told:
        sys.exit("\n".join(lines))
    return {int(seed): set(bugs) for seed, *bugs in told}


def measure_random(cases: Sequence[Case], seeds: Sequence[int]) -> int:
    """Plant each and play; print what came of it; return how many were found."""
    total = 0
    for case in cases:
        with copied() as copy:
            case.plant(copy)
            found = finds_in(copy, seeds, 1, "--kept")
        total += len(found)
        print(case.name, *(found[0] if found else ("not found", case.text)), sep=": ", flush=True)
    return total


def measure_old(bugs: Sequence[str], clean: Mapping[int, Collection[str]]) -> None:
    """Put back each, play and record what came of it."""
    for bug in bugs:
        with copied() as copy:
            replant(bug, copy)
            found = measured(copy, [*clean], [seed for seed in clean if bug in clean[seed]])
        RECORD.write_text(written({**recorded(), bug: found}))
        told = ", ".join(f"{one.after} ({one.seed}: {one.rule})" for one in found.finds)
        print(f"{bug}: {told or 'none'}; {found.rest} without; {found.reached} met", flush=True)


def measured(copy: Path, seeds: Sequence[int], meet: Sequence[int]) -> Measured:
    """Play the seeds of these that meet a fault: behind each find is another start."""
    finds: list[Find] = []
    start = 0
    for name, told in finds_in(copy, meet, STARTS):
        seed = int(name.removeprefix("seed "))
        at = seeds.index(seed) + 1
        finds.append(Find(at - start, seed, re.split(r"\W", told)[0]))
        start = at
    rest = 0 if len(finds) == STARTS else len(seeds) - start
    today = datetime.datetime.now(datetime.timezone.utc).date().isoformat()
    return Measured(today, tuple(finds), rest, len(meet), len(seeds))


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--old", action="store_true", help="the old faults")
    parser.add_argument("--random", type=int, default=0, metavar="N", help="N faults by chance")
    parser.add_argument("--seed", type=int, default=1, help="what chance starts from (1)")
    parser.add_argument("--only", default="", help="those whose names have this alone")
    parser.add_argument("--worlds", type=int, default=400, help="seeds for each fault (400)")
    given = parser.parse_args()
    known = () if given.only else recorded()
    bugs = [bug for bug in OLD_FAULTS if bug not in OUT_OF_REACH and bug not in known]
    bugs = [bug for bug in bugs if given.old and given.only in bug]
    cases = [case for case in random_cases(given.random, given.seed) if given.only in case.name]
    clean = clean_seeds(given.worlds)
    print(f"seeds left out: {_told(sorted({*mixed(given.worlds)} - clean.keys())) or 'none'}")
    measure_old(bugs, clean)
    if cases:
        print(f"{measure_random(cases, [*clean])} of {len(cases)} found")


if __name__ == "__main__":
    main()
