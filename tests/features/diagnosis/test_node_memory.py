"""Counters of what the kernel ends for lack of memory."""

from __future__ import annotations

from pathlib import Path

import pytest

from dsrun.launcher.features.diagnosis.node_memory import Kills, kills, limit, risen


def test_counters_only_rise() -> None:
    before = kills()
    assert 0 <= before.machine <= kills().machine


@pytest.mark.parametrize(
    ("listed", "folder", "counter", "maximum"),
    [
        ("4:memory:/a/b", "memory/a/b", "memory.oom_control", "memory.limit_in_bytes"),
        ("0::/a/b", "a/b", "memory.events", "memory.max"),
    ],
)
def test_cgroups_of_both_versions(
    tmp_path: Path, listed: str, folder: str, counter: str, maximum: str
) -> None:
    root = f"{tmp_path}/"
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/cgroup").write_text(f"1:name=systemd:/\n{listed}\n")
    (tmp_path / "proc/vmstat").write_text("nr 1\noom_kill 7\n")
    inner = tmp_path / "sys/fs/cgroup" / folder
    inner.mkdir(parents=True)
    (inner / counter).write_text("low 0\noom 3\noom_kill 2\n")
    (inner.parent / counter).write_text("oom_kill 5\n")
    (inner / maximum).write_text("1048576\n")
    (inner.parent / maximum).write_text("max\n")
    assert kills(root) == Kills(7, {str(inner): 2, str(inner.parent): 5})
    assert (limit(str(inner)), limit(str(inner.parent))) == (1 << 20, 0)


def test_the_innermost_cgroup_in_which_there_were_more() -> None:
    before = Kills(1, {"/a/b": 0, "/a": 1})
    assert risen(before, Kills(2, {"/a/b": 1, "/a": 2})) == "/a/b"
    assert risen(before, Kills(2, {"/a/b": 0, "/a": 2})) == "/a"
    assert risen(before, Kills(2, {"/new": 3})) == ""
