"""The folder at the start of a run."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from dsrun.launcher.features.sync.manifest import unpack
from dsrun.launcher.features.sync.runner_source import BLOCK, SyncSource

from ...support.played_sync import fill, spec

if TYPE_CHECKING:
    from pathlib import Path


def _source(folder: Path) -> SyncSource:
    return SyncSource(spec(folder), {"XDG_CACHE_HOME": str(folder.parent / "cache")})


def test_its_manifest_travels_and_depends_on_the_contents_alone(tmp_path: Path) -> None:
    folder = fill(tmp_path / "proj", {"a": "one", "b/c": "two"})
    first = _source(folder)
    assert unpack(first.manifest.packed) == first.manifest
    assert first.paths == {"", "a", "b", "b/c"}
    (folder / "a").touch()
    assert _source(folder).manifest.digest == first.manifest.digest
    (folder / "a").write_text("other")
    assert _source(folder).manifest.digest != first.manifest.digest


def test_contents_travel_in_blocks(tmp_path: Path) -> None:
    large = "x" * (2 * BLOCK + 5)
    folder = fill(tmp_path / "proj", {"a": "one", "b": large, "c": "two", "d": ""})
    source = _source(folder)
    pieces = list(source.contents([2, 0, 1, 3]))
    assert b"".join(pieces).decode() == f"twoone{large}"
    assert max(map(len, pieces)) <= 2 * BLOCK
    assert source.size([0, 1, 3]) == 3 + len(large)


def test_a_file_that_was_cut_short_is_named(tmp_path: Path) -> None:
    folder = fill(tmp_path / "proj", {"a": "one"})
    source = _source(folder)
    (folder / "a").write_text("o")
    with pytest.raises(OSError, match="has changed since the job was started"):
        list(source.contents([0]))


@pytest.mark.parametrize(("name", "shown"), [("proj", "proj"), (".x", "x"), ("a b", "a_b")])
def test_copies_are_named_after_the_folder(tmp_path: Path, name: str, shown: str) -> None:
    source = _source(fill(tmp_path / name, {}))
    assert source.name == shown
    assert len(source.key) == 12
    assert source.key != _source(fill(tmp_path / "other", {})).key


def test_a_pipe_in_the_place_of_a_file_is_not_waited_for(tmp_path: Path) -> None:
    folder = fill(tmp_path / "proj", {"a": "one"})
    source = _source(folder)
    (folder / "a").unlink()
    os.mkfifo(folder / "a")
    with pytest.raises(OSError, match="is a pipe, not a file"):
        list(source.contents([0]))
