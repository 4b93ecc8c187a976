"""The counters of CPU quotas, of both versions of cgroups."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from dsrun.launcher.features.full_check import node_throttling as throttling
from dsrun.launcher.features.full_check.node_throttling import Throttling

if TYPE_CHECKING:
    from pathlib import Path

STAT = "nr_periods {}\nnr_throttled {}\n{} 5000\n"


def machine(root: Path, cgroup: str, **folders: str) -> str:
    """A machine whose process is in this cgroup, with a cpu.stat in each folder."""
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/self/cgroup").write_text(cgroup)
    for folder, text in folders.items():
        place = root / "sys/fs/cgroup" / folder.replace("__", "/")
        place.mkdir(parents=True, exist_ok=True)
        (place / "cpu.stat").write_text(text)
    return f"{root}/"


@pytest.mark.parametrize(
    ("cgroup", "folders"),
    [
        ("9:cpuset:/x\n1:cpu,cpuacct:/a/b\n0::/\n", "cpu,cpuacct"),
        ("1:cpu:/a/b\n", "cpu"),
        ("0::/a/b\n", ""),
    ],
)
def test_all_cgroups_up_to_the_top_are_read(tmp_path: Path, cgroup: str, folders: str) -> None:
    at = f"{folders}__" if folders else ""
    stats = {
        f"{at}a__b": STAT.format(8, 2, "throttled_time"),
        f"{at}a": STAT.format(9, 3, "throttled_usec"),
    }
    root = machine(tmp_path, cgroup, **stats)
    mount = f"{root}sys/fs/cgroup/{folders}".rstrip("/")
    assert throttling.read(root) == {
        f"{mount}/a/b": Throttling(8, 2, 5e-6),
        f"{mount}/a": Throttling(9, 3, 5e-3),
    }


@pytest.mark.parametrize("text", ["", "usage_usec 5\n", "nr_periods x\nnr_throttled 1\n", "\xff\n"])
def test_what_has_no_such_counters_has_no_quota(tmp_path: Path, text: str) -> None:
    assert throttling.read(machine(tmp_path, "0::/a\n", a=text)) == {}


def test_the_cgroup_that_was_stopped_most_counts() -> None:
    before = {
        "/a": Throttling(10, 2, 1.0),
        "/a/b": Throttling(10, 0, 0.0),
        "/gone": Throttling(1, 1, 1.0),
    }
    after = {
        "/a": Throttling(20, 3, 1.5),
        "/a/b": Throttling(20, 9, 2.5),
        "/new": Throttling(50, 50, 9.0),
    }
    assert throttling.share(before, after) == (10, 9)
    assert throttling.share({}, after) == (0, 0)
    assert (throttling.seconds(before, after), throttling.seconds({}, after)) == (2.5, 0.0)
