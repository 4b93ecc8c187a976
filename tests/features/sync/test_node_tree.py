"""What is in a copy, without following links."""

from __future__ import annotations

import hashlib
import os
from typing import TYPE_CHECKING

from dsrun.launcher.features.sync.manifest import FILE, FOLDER, LINK
from dsrun.launcher.features.sync.node_tree import OTHER, Tree

if TYPE_CHECKING:
    from pathlib import Path


def test_what_is_found(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder/file").write_text("text")
    (tmp_path / "link").symlink_to("folder")
    os.mkfifo(tmp_path / "pipe")
    tree = Tree(str(tmp_path))
    kinds = {}
    for path in ("folder", "folder/file", "link", "pipe"):
        found = tree.entry(path)
        assert found is not None
        kinds[path] = found.kind
    assert kinds == {"folder": FOLDER, "folder/file": FILE, "link": LINK, "pipe": OTHER}
    assert tree.target("link") == "folder"
    assert tree.digest("folder/file") == hashlib.sha256(b"text").hexdigest()
    assert sorted(tree.below("folder")) == ["folder/file"]


def test_nothing_is_below_a_link_or_a_file(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder/file").write_text("text")
    (tmp_path / "link").symlink_to("folder")
    tree = Tree(str(tmp_path))
    for path in ("none", "none/x", "link/file", "folder/file/x", "folder/none"):
        assert tree.entry(path) is None, path


def test_names_that_are_no_text(tmp_path: Path) -> None:
    (tmp_path / os.fsdecode(b"\xff")).write_text("x")
    assert list(Tree(str(tmp_path.parent)).below(tmp_path.name)) == [f"{tmp_path.name}/\udcff"]
    assert Tree(str(tmp_path)).entry("\udcff") is not None
