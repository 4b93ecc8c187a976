"""The test of a folder's disk."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dsrun.launcher.features.full_check import node_disk as disk

if TYPE_CHECKING:
    from pathlib import Path


def test_a_folder_is_written_and_read_and_left_empty(tmp_path: Path) -> None:
    found = disk.disk("work", str(tmp_path))
    assert [(row.test, row.part, row.evidence) for row in found.rows] == [
        ("write", "work", str(tmp_path)),
        ("read", "work", str(tmp_path)),
    ]
    assert all(row.value > 0 for row in found.rows)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_not_there_is_broken(tmp_path: Path) -> None:
    found = disk.disk("work", f"{tmp_path}/none")
    assert found.rows == ()
    ((part, text),) = found.broken
    assert part == "work folder"
    assert text == f"{tmp_path}/none: no such file or directory"
