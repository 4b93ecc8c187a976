"""Plant faults in modules of dsrun, one at a time, and run the tests of that module alone.

    python -m tests.planted_faults --count 100 --seed 1
    python -m tests.planted_faults --module launcher/node/guard.py --count 20 --behaviour
    python -m tests.planted_faults --list

Each fault is planted in a copy of the checkout, and its tests run in a process namespace of their
own: code that is wrong on purpose may signal processes. What was not caught is printed as a diff.
"""

from __future__ import annotations

import argparse
import difflib
import os
import queue
import random
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from enum import Enum
from importlib.util import cache_from_source
from itertools import islice, zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from .support.checkout import CHECKOUT
from .support.faults import BEHAVIOUR, Fault, faults_of, is_python

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from collections.abc import Set as AbstractSet

FOLDERS = ("control", "node", "head", "features")
LEFT_OUT = shutil.ignore_patterns(
    ".git", ".venv", "__pycache__", ".*_cache", "build", "*.egg-info", ".peers"
)
ISOLATED = ("unshare", "--pid", "--fork", "--kill-child", "--mount-proc")
PYTEST = ("-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-p", "no:xdist")

ROUNDS = ("tests/features/elastic/test_runner_rounds.py",)
RUN = ("tests/head/run/test_run.py", "tests/features/elastic/test_runner_policy.py")

ELSEWHERE = {
    "launcher/features/elastic/runner_admission.py": RUN,
    "launcher/head/fleet/events.py": ("tests/head/run/test_fleet_events.py",),
    "launcher/head/fleet/fleet.py": ("tests/head/fleet/test_heartbeats.py",),
    "launcher/head/fleet/listener.py": ("tests/head/fleet/test_packages.py",),
    "launcher/features/hold/runner_serve.py": ("tests/features/hold/test_command.py",),
    "launcher/head/job/launch.py": ("tests/head/job/test_job.py",),
    "launcher/features/quick_check/runner_file_lists.py": (
        "tests/features/quick_check/test_runner_gate.py",
    ),
    "launcher/head/run/run.py": ("tests/features/quick_check/test_runner_gate.py",),
    "launcher/features/elastic/runner_round_changes.py": RUN,
    "launcher/head/run/run_start.py": RUN,
}
"""Further files of tests of a module, where one alone would be too long, or is another thing."""


class Verdict(Enum):
    """What has come of a fault; one that hangs the tests is caught as well."""

    CAUGHT = "caught"
    HUNG = "caught by the time limit"
    MISSED = "not caught"
    UNTESTED = "not caught, as there are no tests,"


class Plant(NamedTuple):
    """A fault, and the module that it stands in, from the top of the checkout."""

    module: str
    fault: Fault


class Copy(NamedTuple):
    """A copy of the checkout, to be spoiled."""

    top: Path

    def run(self, tests: Sequence[str], seconds: float) -> subprocess.CompletedProcess[str]:
        """Run these files of tests.

        Raises:
            TimeoutExpired: they took longer.
        """
        user = () if os.geteuid() == 0 else ("--map-root-user",)
        # The shell is the namespace's first process: signals are as usual for what it runs.
        shell = ("sh", "-c", '"$@"; exit $?', "sh", sys.executable, *PYTEST, *tests)
        return subprocess.run(
            [*ISOLATED, *user, *shell],
            cwd=self.top,
            env={**os.environ, "PYTHONPATH": str(self.top / "tests" / "import")},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=seconds,
            check=False,
        )

    @contextmanager
    def planted(self, plant: Plant) -> Iterator[None]:
        """Have a fault in its module for a while."""
        path = self.top / plant.module
        source = path.read_text()
        try:
            _write(path, plant.fault.spoil(source))
            yield
        finally:
            _write(path, source)


def _write(path: Path, source: str) -> None:
    path.write_text(source)
    # The compiled file is told from the source by size and second alone.
    Path(cache_from_source(str(path))).unlink(missing_ok=True)


def modules() -> list[str]:
    """Return the modules in which faults are planted."""
    found = (
        path.relative_to(CHECKOUT).as_posix()
        for folder in FOLDERS
        for path in sorted((CHECKOUT / "launcher" / folder).rglob("*.py"))
    )
    return [name for name in found if not name.endswith("/__init__.py")]


def tests_of(module: str) -> list[str]:
    """Return the files of tests of a module, as `test_spawn.py` and `test_spawn_limits.py` are."""
    path = Path(module)
    folder = Path(f"tests/{path.parent.as_posix()}/".replace("tests/launcher/", "tests/"))
    beside = {one.stem for one in (CHECKOUT / path.parent).glob("*.py")}
    found = [
        (folder / test.name).as_posix()
        for test in sorted((CHECKOUT / folder).glob(f"test_{path.stem}*.py"))
        if _subject(test.stem.removeprefix("test_"), beside) == path.stem
    ]
    return found + [name for name in ELSEWHERE.get(module, ()) if (CHECKOUT / name).exists()]


def _subject(name: str, modules: AbstractSet[str]) -> str:
    """Return the module with the longest name that the name of a file of tests begins with."""
    own = [one for one in modules if f"{name}_".startswith(f"{one}_")]
    return max(own, key=len, default="")


def choose(names: Sequence[str], count: int, seed: int, kinds: Sequence[str] = ()) -> list[Plant]:
    """Return faults spread evenly over the modules: what a module gets is the seed's alone.

    Args:
        names: of the modules.
        count: how many faults.
        seed: what chance starts from.
        kinds: of faults, or none for all kinds.
    """
    rows = [_by_chance(name, seed, kinds) for name in names]
    random.Random(seed).shuffle(rows)
    turns = (plant for turn in zip_longest(*rows) for plant in turn if plant is not None)
    return list(islice(turns, count))


def _by_chance(module: str, seed: int, kinds: Sequence[str]) -> Iterator[Plant]:
    """Give all faults of a module in the order of chance, where each kind has the same."""
    chance = random.Random(f"{seed} {module}")
    source = (CHECKOUT / module).read_text()
    by_kind: dict[str, list[Fault]] = {}
    for fault in faults_of(source):
        if not kinds or fault.kind in kinds:
            by_kind.setdefault(fault.kind, []).append(fault)
    while by_kind:
        some = by_kind[chance.choice(list(by_kind))]
        fault = some.pop(chance.randrange(len(some)))
        if not some:
            del by_kind[fault.kind]
        if is_python(fault.spoil(source)):
            yield Plant(module, fault)


def diff(plant: Plant) -> str:
    """Return what a fault changes."""
    source = (CHECKOUT / plant.module).read_text()
    lines = difflib.unified_diff(
        source.splitlines(), plant.fault.spoil(source).splitlines(), plant.module, "", "", "", 1, ""
    )
    return "\n".join(lines)


def verdict(copy: Copy, plant: Plant, limit: float) -> Verdict:
    """Return what the tests of its module make of a fault."""
    tests = tests_of(plant.module)
    if not tests:
        return Verdict.UNTESTED
    with copy.planted(plant):
        try:
            return Verdict.CAUGHT if copy.run(tests, limit).returncode else Verdict.MISSED
        except subprocess.TimeoutExpired:
            return Verdict.HUNG


def check_unspoiled(copy: Copy, plants: Sequence[Plant]) -> None:
    """Exit unless all tests that will run pass as things are."""
    tests = sorted({test for plant in plants for test in tests_of(plant.module)})
    if not tests:
        return
    result = copy.run(tests, 1200.0)
    if result.returncode:
        sys.exit(f"these tests fail without a fault:\n{result.stdout}{result.stderr}")


def try_all(plants: Sequence[Plant], jobs: int, limit: float) -> list[Verdict]:
    """Plant each in turn, some at a time, and print those that no test has failed for."""
    with tempfile.TemporaryDirectory(prefix="faults-") as folder:
        copies: queue.SimpleQueue[Copy] = queue.SimpleQueue()
        for number in range(jobs):
            copy = Copy(Path(folder, str(number)))
            shutil.copytree(CHECKOUT, copy.top, symlinks=True, ignore=LEFT_OUT)
            copies.put(copy)
        check_unspoiled(copy, plants)

        def attempt(plant: Plant) -> Verdict:
            copy = copies.get()
            try:
                found = verdict(copy, plant, limit)
            finally:
                copies.put(copy)
            if found is not Verdict.CAUGHT:
                print(f"\n{found.value} in {plant.module}:\n{diff(plant)}", flush=True)
            return found

        with ThreadPoolExecutor(jobs) as pool:
            return list(pool.map(attempt, plants))


def summary(plants: Sequence[Plant], found: Sequence[Verdict]) -> str:
    """Return how many were caught, by folder."""
    folders = ["/".join(Path(plant.module).parts[:2]) for plant in plants]
    good = {Verdict.CAUGHT, Verdict.HUNG}
    hits = Counter(folder for folder, one in zip(folders, found, strict=True) if one in good)
    lines = [f"{name}: {hits[name]} of {count}" for name, count in sorted(Counter(folders).items())]
    late = found.count(Verdict.HUNG)
    return "\n".join(
        [*lines, f"caught: {hits.total()} of {len(found)}, {late} of them by the time limit"]
    )


def main() -> None:
    """Plant, run, and tell."""
    parser = argparse.ArgumentParser(description="Plant faults, and see whether tests catch them.")
    parser.add_argument("--count", type=int, default=100, help="how many (default: 100)")
    parser.add_argument("--seed", type=int, default=1, help="what chance starts from (default: 1)")
    parser.add_argument("--jobs", type=int, default=1, help="how many at a time (default: 1)")
    parser.add_argument("--limit", type=float, default=240.0, help="seconds for the tests of one")
    parser.add_argument(
        "--module", action="append", default=[], help="modules that start with this path alone"
    )
    parser.add_argument(
        "--behaviour",
        action="store_const",
        const=BEHAVIOUR,
        default=(),
        help="leave out what changes a figure, a word or a default",
    )
    parser.add_argument("--list", action="store_true", help="show the faults and run nothing")
    given = parser.parse_args()
    names = [name for name in modules() if name.startswith(tuple(given.module) or "launcher/")]
    plants = choose(names, given.count, given.seed, given.behaviour)
    if given.list:
        print(*map(diff, plants), sep="\n\n")
        return
    print("\n" + summary(plants, try_all(plants, given.jobs, given.limit)))


if __name__ == "__main__":
    main()
