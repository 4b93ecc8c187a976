"""The order of tests for several processes."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from .support.order import dealt


def collected(**files: int) -> list[Any]:
    """Tests by file: `hosts_a=3` are three on hosts."""
    made = []
    for name, count in files.items():
        folder = "tests/cluster" if name.startswith("hosts") else "tests"
        path = Path(folder, f"test_{name}.py")
        made += [SimpleNamespace(path=path, number=number) for number in range(count)]
    return made


def parts(items: list[Any], processes: int) -> list[list[Any]]:
    """The part of each process, as pytest-xdist cuts the list."""
    rest, made = dealt(cast("list[pytest.Item]", items), processes), list[list[Any]]()
    for at in range(processes):
        size = len(rest) // (processes - at)
        made.append(rest[:size])
        del rest[:size]
    return made


@pytest.mark.parametrize("processes", [1, 2, 3, 6])
def test_each_process_has_its_share_of_each_kind(processes: int) -> None:
    items = collected(a=50, hosts_a=7, hosts_b=6, hosts_c=6, b=71, hosts_d=5, worlds=6, c=90)
    found = parts(items, processes)
    assert sorted(map(id, (one for part in found for one in part))) == sorted(map(id, items))
    for part in found:
        slow = [at for at, one in enumerate(part) if "hosts" in one.path.name]
        if processes <= 2:
            assert slow, "both have some"
        assert all(at < len(part) * 0.9 for at in slow), "short ones are the last"
    for name in {one.path for one in items if "hosts" in one.path.name}:
        order = [[one.number for one in part if one.path == name] for part in found]
        assert sorted(filter(None, order)) == [
            sorted(one.number for one in items if one.path == name)
        ]


def test_few_tests_are_all_run() -> None:
    items = collected(hosts_a=1, hosts_b=1)
    assert len(dealt(cast("list[pytest.Item]", items), 6)) == 2
    assert dealt([], 6) == []
