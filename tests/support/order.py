"""The order of tests for several processes, of which each begins with a part of the list.

Tests on hosts mostly wait, the others keep a core busy. In the order of their names a few processes
would have all of the former, which would run alone at the end, on an idle machine. So each process
gets its share of both, side by side, and short tests at the end.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import pytest

HOSTS = "cluster"
"""The folder of tests on hosts."""

LONG = frozenset(
    {
        *(
            "test_agent.py",
            "test_cli_runs.py",
            "test_counts.py",
            "test_digest.py",
            "test_example.py",
        ),
        *("test_house.py", "test_moving.py", "test_packaging.py", "test_parts.py"),
        *("test_planted_faults.py", "test_shard_queue.py", "test_timeline.py", "test_ways.py"),
        "test_worlds.py",
    }
)
"""Files with tests without hosts that take tens of seconds, if they were not the last anyway."""

BESIDE = 2 / 3
"""The part of the short tests that runs beside the others."""


def dealt(items: Sequence[pytest.Item], processes: int) -> list[pytest.Item]:
    """Return the tests in an order for this number of processes; those of a file stay together.

    pytest-xdist cuts the list into one part for each (`WorkStealingScheduling.check_schedule`).
    """
    files: dict[Path, list[pytest.Item]] = defaultdict(list)
    for item in items:
        files[item.path].append(item)
    slow = [tests for path, tests in files.items() if _is_slow(path)]
    short = [one for path, tests in files.items() if not _is_slow(path) for one in tests]
    parts: list[list[list[pytest.Item]]] = [[] for _ in range(processes)]
    for tests in sorted(slow, key=len, reverse=True):
        min(parts, key=lambda part: sum(map(len, part))).append(tests)
    made: list[pytest.Item] = []
    for at, part in enumerate(parts):
        size = (len(items) - len(made)) // (processes - at)
        rest = max(0, size - sum(map(len, part)))
        made += _side_by_side(part, short[:rest])
        del short[:rest]
    return [*made, *short]


def _is_slow(path: Path) -> bool:
    return HOSTS in path.parts or path.name in LONG


def _side_by_side(
    slow: Sequence[list[pytest.Item]], short: Sequence[pytest.Item]
) -> list[pytest.Item]:
    """Return the tests of slow files at equal distances among the first of the short ones."""
    made: list[pytest.Item] = []
    step, done = int(BESIDE * len(short)) // max(len(slow), 1), 0
    for tests in slow:
        made += tests
        made += short[done : done + step]
        done += step
    return [*made, *short[done:]]
