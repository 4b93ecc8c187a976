"""Run the tests that are nearest to the changes, for five minutes.

    python -m tests.near [--base main] [--minutes 5] [--list] [-- OPTIONS OF PYTEST]

Changes are differences from the point where this branch left the base, committed or not. The
nearest tests come first: changed test files, the mirrored files of changed modules, and the tests
of files of other kinds. Test files that import a changed module follow, then the mirrored files of
modules that import one. When the minutes are over, no more files are started.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from fnmatch import fnmatch
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

from .planted_faults import tests_of
from .support.checkout import CHECKOUT

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from collections.abc import Set as AbstractSet

ROOMS = {"launcher": "dsrun.launcher", "accelerator": "dsrun.accelerator", "tests": "tests"}
"""Folders of Python, and the names that they are imported by."""

ELSEWHERE = {
    "*.md": ("tests/docs/test_pages.py",),
    "launcher/*.py": ("tests/test_house.py", "tests/test_startup.py"),
    "launcher/cli/*": ("tests/docs", "tests/test_dry_runs.py"),
    "launcher/*/json_types*": ("tests/docs/test_schemas.py",),
    "docs/generate/*": ("tests/docs",),
    "share/*": ("tests/docs",),
    "pyproject.toml": (
        "tests/test_packaging.py",
        "tests/test_layers.py",
        "tests/test_entry_points.py",
    ),
    "tests/recorded/*.json": (
        *("tests/test_dry_runs.py", "tests/test_histories.py", "tests/test_startup.py"),
    ),
    "tests/bugs.toml": ("tests/test_bugs.py", "tests/docs/test_generated.py"),
    "tests/release/*": ("tests/release", "tests/test_packaging.py"),
    "examples/*": ("tests/test_example.py",),
}
"""By the pattern of a path, tests that no import leads to."""

AT_A_TIME = 20
"""Files that one pytest is given, between which the clock is looked at."""

PASSED = (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED)
"""Files may have tests of later tiers alone."""


class Near(NamedTuple):
    """Files and folders of tests, in the groups in which they are run."""

    own: frozenset[str]
    importing: frozenset[str]
    beside: frozenset[str]


def git(*words: str, folder: Path = CHECKOUT) -> list[str]:
    """Return what git prints, split at zeros.

    Raises:
        SystemExit: git says why.
    """
    ran = subprocess.run(["git", *words], cwd=folder, capture_output=True, text=True, check=False)
    if ran.returncode:
        sys.exit(f"git {' '.join(words)}: {ran.stderr.strip()}")
    return ran.stdout.strip("\n\0").split("\0") if ran.stdout.strip("\n\0") else []


def changed(base: str, folder: Path = CHECKOUT) -> list[str]:
    """Return the files that differ from where HEAD has left a commit, and those unknown to git.

    Raises:
        SystemExit: there is no such commit.
    """
    (start,) = git("merge-base", base, "HEAD", folder=folder)
    return [
        *git("diff", "--name-only", "-z", start, folder=folder),
        *git("ls-files", "--others", "--exclude-standard", "-z", folder=folder),
    ]


def module_of(path: str) -> str:
    """Return the name by which a file is imported, "" for one of another kind."""
    room, _, rest = path.partition("/")
    if room not in ROOMS or not rest.endswith(".py"):
        return ""
    return f"{ROOMS[room]}.{rest[:-3]}".replace("/", ".").removesuffix(".__init__")


def mirrored(path: str) -> set[str]:
    """Return the files of tests of one module, or the file itself if it has tests."""
    if path.startswith("tests/"):
        return {path} if Path(path).name.startswith("test_") else set()
    return set(tests_of(path))


def near(paths: Iterable[str], importers: Mapping[str, AbstractSet[str]]) -> Near:
    """Return the tests of changed files that are there.

    Args:
        paths: from the top of the checkout.
        importers: by the path of a module, those of the modules that import it.
    """
    own: set[str] = set()
    reached: set[str] = set()
    for path in paths:
        own |= mirrored(path) if module_of(path) else set()
        own.update(*(tests for pattern, tests in ELSEWHERE.items() if fnmatch(path, pattern)))
        reached |= importers.get(path, set())
    helpers = {one for one in reached if one.startswith("tests/") and not mirrored(one)}
    reached |= {one for helper in helpers for one in importers.get(helper, set())}
    importing = {one for one in reached if one.startswith("tests/") and mirrored(one)}
    beside = {test for one in reached - importing - helpers for test in mirrored(one)}
    there = frozenset(one for one in own | importing | beside if (CHECKOUT / one).exists())
    return Near(there & own, there & importing - own, there & beside - importing - own)


def all_importers() -> dict[str, set[str]]:
    """Return, by the path of each module of the checkout, those of the modules that import it."""
    import grimp

    graph = grimp.build_graph("dsrun", "tests", cache_dir=None)
    paths = {
        module_of(path): path
        for path in git("ls-files", "--cached", "--others", "--exclude-standard", "-z")
        if module_of(path)
    }
    return {
        path: {paths[one] for one in graph.find_modules_that_directly_import(name) if one in paths}
        for name, path in paths.items()
        if name in graph.modules
    }


def main() -> int:
    """Run the groups in turn, and return the exit code of pytest: the first that is not 0."""
    parser = argparse.ArgumentParser(description="Run the tests nearest to the changes.")
    parser.add_argument("--base", default="main", help="the commit to compare with (default: main)")
    parser.add_argument("--minutes", type=float, default=5.0, help="when to stop (default: 5)")
    parser.add_argument("--list", action="store_true", help="show the tests and run nothing")
    parser.add_argument("pytest", nargs="*", help="options for pytest, after --")
    given = parser.parse_args()
    paths = changed(given.base)
    found = near(paths, all_importers())
    print(f"{len(paths)} files changed since {given.base}")
    for name, group in found._asdict().items():
        print(f"{name}: {len(group)} files or folders of tests", *sorted(group), sep="\n    ")
    return 0 if given.list else run(found, time.monotonic() + given.minutes * 60, given.pytest)


def run(found: Near, end: float, options: Sequence[str]) -> int:
    """Run tests until that time on the monotonic clock; return the first exit code that is not 0.

    Args:
        found: the groups.
        end: from when on no further files are begun.
        options: of pytest.
    """
    left = [one for group in found for one in sorted(group)]
    argv = [sys.executable, "-m", "pytest", "--quiet", "--tier", "test", *options]
    while left and time.monotonic() < end:
        some, left = left[:AT_A_TIME], left[AT_A_TIME:]
        code = subprocess.run([*argv, *some], cwd=CHECKOUT, check=False).returncode
        if code not in PASSED:
            return code
    if left:
        print(f"out of time; not run: {' '.join(left)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
