"""The folder around a copy: locks, and dsrun's own files."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from dsrun.launcher.features.sync.node_folder import (
    MARK,
    CopyState,
    PlacedEntry,
    SyncFolder,
    all_locked,
    choose,
)

if TYPE_CHECKING:
    from pathlib import Path

PLACED = PlacedEntry("a", "f", 0o644, 1, "0" * 64, 5, 6)


def test_a_copy_belongs_to_one_sync_or_to_several_runs(tmp_path: Path) -> None:
    first = SyncFolder(str(tmp_path), "proj")
    assert first.claimed
    assert not SyncFolder(str(tmp_path), "proj").claimed
    first.share()
    assert not SyncFolder(str(tmp_path), "proj").claimed
    first.close()
    again = SyncFolder(str(tmp_path), "proj")
    assert again.claimed
    again.close()


def test_what_is_known_of_a_copy(tmp_path: Path) -> None:
    folder = SyncFolder(str(tmp_path), "proj")
    assert folder.state() == CopyState("", {})
    folder.write(".state", ["digest", [PLACED]])
    assert folder.state() == CopyState("digest", {"a": PLACED})
    folder.remove(".state")
    folder.remove(".state")
    assert folder.state() == CopyState("", {})
    folder.close()


@pytest.mark.parametrize("text", ["", "{", "[1]", f'["{MARK} ", ["d", []]]', "null"])
def test_a_file_that_is_not_dsruns_says_nothing(tmp_path: Path, text: str) -> None:
    folder = SyncFolder(str(tmp_path), "proj")
    (tmp_path / ".state").write_text(text)
    assert folder.state() == CopyState("", {})
    folder.close()


def test_another_copy_for_other_contents(tmp_path: Path) -> None:
    root = str(tmp_path)
    used, number = choose(root, "proj", "key", "digest")
    assert number == 1
    used.write(".state", ["digest", []])
    used.share()
    same, number = choose(root, "proj", "key", "digest")
    assert (number, same.claimed) == (1, False)
    other, number = choose(root, "proj", "key", "other")
    assert (number, other.claimed) == (2, True)
    for one in (used, same, other):
        one.close()


def test_who_waits_for_another_sync_says_so(tmp_path: Path) -> None:
    waits: list[str] = []
    with all_locked(str(tmp_path), "proj", "key", lambda: waits.append("first")):
        assert waits == []

        def refuse() -> None:
            raise InterruptedError

        with (
            pytest.raises(InterruptedError),
            all_locked(str(tmp_path), "proj", "key", refuse),
        ):
            pass
