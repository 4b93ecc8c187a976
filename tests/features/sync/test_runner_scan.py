"""What of a folder is synced."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from dsrun.launcher.common.errors import UsageError
from dsrun.launcher.features.sync.runner_scan import checked, scan, shown

from ...support.played_sync import fill, spec

if TYPE_CHECKING:
    from pathlib import Path


def _paths(folder: Path) -> list[str]:
    return [item.path for item in scan(str(folder)).items]


def test_everything_but_what_is_left_out(tmp_path: Path) -> None:
    files = {"a.py": "", "b/c.py": "", "b/x.log": "", ".git/HEAD": "", "b/__pycache__/c.pyc": ""}
    fill(tmp_path, {**files, ".gitignore": "*.log\n/out/\n", "out/x": "", ".dsrun-probe-ab": ""})
    (tmp_path / "empty").mkdir()
    assert _paths(tmp_path) == [".gitignore", "a.py", "b", "b/c.py", "empty"]


def test_links_stay_links_and_those_into_the_folder_become_relative(tmp_path: Path) -> None:
    fill(tmp_path, {"a/b.py": ""})
    (tmp_path / "a/up").symlink_to("../a")
    (tmp_path / "a/full").symlink_to(tmp_path / "a/b.py")
    (tmp_path / "a/out").symlink_to("../../elsewhere")
    (tmp_path / "data").symlink_to("/scratch/data")
    found = scan(str(tmp_path))
    targets = {item.path: item.target for item in found.items if item.target}
    outside = {"a/out": "../../elsewhere", "data": "/scratch/data"}
    assert targets == {"a/up": "../a", "a/full": "b.py", **outside}
    assert found.outside == list(outside)


def test_what_is_no_file_is_named(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert scan(str(tmp_path)).skipped == ["pipe (a pipe)"]


def test_names_that_are_no_text(tmp_path: Path) -> None:
    (tmp_path / os.fsdecode(b"\xff")).write_text("")
    assert _paths(tmp_path) == ["\udcff"]


def test_too_much_is_an_error_that_names_the_largest(tmp_path: Path) -> None:
    fill(tmp_path, {f"{name}/x": "x" * 10 * at for at, name in enumerate("abcdefg")})
    with pytest.raises(UsageError) as caught:
        checked(spec(tmp_path, limit=100))
    assert str(caught.value) == (
        f"--sync {tmp_path}: 210 bytes, but --sync_limit is 100 bytes; the largest: g (60 bytes),"
        " f (50 bytes), e (40 bytes), d (30 bytes), c (20 bytes); name what the nodes do not need"
        " in .dsrunignore, or raise the limit"
    )
    assert checked(spec(tmp_path, limit=210)).items


def test_the_script_and_the_workers_folder_must_be_there(tmp_path: Path) -> None:
    fill(tmp_path, {"x.py": "", "out/y.py": "", ".gitignore": "out/\n"})
    assert checked(spec(tmp_path, script="x.py")).items
    with pytest.raises(UsageError, match=r"the script out/y\.py is excluded"):
        checked(spec(tmp_path, script="out/y.py"))
    inside = spec(tmp_path)._replace(moved={str(tmp_path / "out"): "out"})
    with pytest.raises(UsageError, match=r"the workers' folder .*/out is excluded"):
        checked(inside)


def test_what_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"^--sync: .*/none/?: no such file or directory$"):
        scan(str(tmp_path / "none"))


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 bytes"),
        (999, "999 bytes"),
        (1500, "1.5 kB"),
        (3 * 10**6, "3 MB"),
        (123 * 10**9, "123 GB"),
    ],
)
def test_sizes_in_words(size: int, text: str) -> None:
    assert shown(size) == text
