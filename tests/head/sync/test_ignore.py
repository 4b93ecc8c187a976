"""`.gitignore` and `.dsrunignore`, in several folders."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from dsrun.launcher.common.errors import UsageError
from dsrun.launcher.head.sync.ignore import Ignored

if TYPE_CHECKING:
    from pathlib import Path


def test_without_rules_nothing_is_left_out(tmp_path: Path) -> None:
    rules = Ignored()
    assert rules.within(str(tmp_path), "", {"a"}) is rules
    assert not rules.has("a")


def test_the_rules_of_git(tmp_path: Path) -> None:
    (tmp_path / ".gitignore").write_text("# comment\n*.log\n/top\nbuild/\n!keep.log\ndoc/*.txt\n")
    rules = Ignored().within(str(tmp_path), "", {".gitignore"})
    left_out = [
        path
        for path in ("x.log", "a/x.log", "keep.log", "top", "a/top", "build/", "a/build/", "build")
        if rules.has(path)
    ]
    assert left_out == ["x.log", "a/x.log", "top", "build/", "a/build/"]
    assert rules.has("doc/a.txt")
    assert not rules.has("doc/deep/a.txt")


def test_dsruns_own_rules_and_those_of_a_deeper_folder_have_the_last_word(tmp_path: Path) -> None:
    (tmp_path / ".gitignore").write_text("*.bin\n")
    (tmp_path / ".dsrunignore").write_text("!need.bin\nvideos/\n")
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub/.gitignore").write_text("/need.bin\n!other.bin\n")
    top = Ignored().within(str(tmp_path), "", {".gitignore", ".dsrunignore"})
    assert [top.has(path) for path in ("a.bin", "need.bin", "videos/")] == [True, False, True]
    sub = top.within(str(tmp_path / "sub"), "sub/", {".gitignore"})
    paths = ("sub/need.bin", "sub/deep/need.bin", "sub/other.bin", "sub/a.bin")
    assert [sub.has(path) for path in paths] == [True, False, False, True]


def test_rules_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / ".dsrunignore").mkdir()
    with pytest.raises(UsageError, match=r"^--sync: .*\.dsrunignore: is a directory$"):
        Ignored().within(str(tmp_path), "", {".dsrunignore"})
