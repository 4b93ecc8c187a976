"""What changes in a copy, entry by entry; `test_program` has whole folders."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from dsrun.launcher.features.sync.manifest import FILE, FOLDER, LINK, ManifestEntry
from dsrun.launcher.features.sync.node_changes import changes
from dsrun.launcher.features.sync.node_folder import PlacedEntry
from dsrun.launcher.features.sync.node_tree import Tree, TreeEntry

if TYPE_CHECKING:
    from pathlib import Path

OLD, NEW = "0" * 64, "1" * 64


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    """A copy with a file, a folder and a link."""
    (tmp_path / "file").write_text("x")
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to("file")
    return Tree(str(tmp_path))


def _placed(tree: Tree, path: str, content: str = OLD) -> PlacedEntry:
    found = tree.entry(path)
    assert isinstance(found, TreeEntry)
    mode = 0 if found.kind == LINK else 0o644
    return PlacedEntry(path, found.kind, mode, found.size, content, found.mtime, found.inode)


def test_what_is_wanted_as_it_was_placed_is_kept(tree: Tree) -> None:
    old = _placed(tree, "file")
    found = changes({"file": old}, [ManifestEntry(*old[:5])], tree)
    assert (found.keep, found.place, found.delete, found.blocked) == ([old], [], [], [])
    assert found.reuse == {OLD: "file"}


def test_other_contents_are_placed_and_other_names_deleted(tree: Tree) -> None:
    old = _placed(tree, "file")
    new = ManifestEntry("file", FILE, 0o644, 1, NEW)
    assert changes({"file": old}, [new], tree).place == [new]
    assert changes({"file": old}, [], tree).delete == [old]


def test_a_link_counts_by_what_it_points_to(tree: Tree) -> None:
    new = ManifestEntry("link", LINK, 0, 0, "elsewhere")
    assert changes({"link": _placed(tree, "link", "file")}, [new], tree).place == [new]
    assert changes({"link": _placed(tree, "link", "other")}, [new], tree).blocked == ["link"]


def test_another_mode_of_a_folder(tree: Tree) -> None:
    new = ManifestEntry("folder", FOLDER, 0o700, 0, "")
    found = changes({"folder": _placed(tree, "folder", "")}, [new], tree)
    assert (found.folders, found.blocked) == ([new], [])


def test_a_folder_in_place_of_a_file(tree: Tree) -> None:
    old, new = _placed(tree, "file"), ManifestEntry("file", FOLDER, 0o755, 0, "")
    found = changes({"file": old}, [new], tree)
    assert (found.folders, found.delete) == ([new], [old])
    assert changes({}, [new], tree).blocked == ["file"]
