"""Hashes of files, which are kept until the files change."""

from __future__ import annotations

import hashlib
import os
from typing import TYPE_CHECKING

import pytest

from dsrun.launcher.features.sync.runner_hashes import FRESH, Hashes
from dsrun.launcher.features.sync.runner_scan import scan

from ...support.limits import wait_for

if TYPE_CHECKING:
    from pathlib import Path

KEY = "0123456789ab"


def _digest(folder: Path, cache: Path, ago: float) -> str:
    """Return the digest of the only file, which was changed so many seconds ago."""
    (item,) = scan(str(folder)).items
    hashes = Hashes(KEY, {"XDG_CACHE_HOME": str(cache)})
    size, digest = hashes.of(str(folder), item, item.stamp[2] / 1e9 + ago)
    assert size == item.size
    hashes.save()
    return digest


def _sha(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def test_a_file_is_read_again_only_if_it_has_changed(tmp_path: Path) -> None:
    folder, cache = tmp_path / "proj", tmp_path / "cache"
    folder.mkdir()
    (folder / "x").write_text("one")
    assert _digest(folder, cache, FRESH + 1) == _sha("one")
    kept = cache / "dsrun/hashes" / KEY
    kept.write_text(kept.read_text().replace(_sha("one"), "known"))
    assert _digest(folder, cache, FRESH + 1) == "known"
    before = (folder / "x").stat()
    (folder / "x").write_text("two")

    def has_another_ctime() -> bool:
        """Set the times back until the kernel's coarse clock has gone on."""
        os.utime(folder / "x", ns=(before.st_atime_ns, before.st_mtime_ns))
        return (folder / "x").stat().st_ctime_ns != before.st_ctime_ns

    wait_for(has_another_ctime, "the next tick of the kernel's clock")
    assert _digest(folder, cache, FRESH + 1) == _sha("two"), "ctime tells"


def test_a_file_that_has_just_changed_may_change_again(tmp_path: Path) -> None:
    folder, cache = tmp_path / "proj", tmp_path / "cache"
    folder.mkdir()
    (folder / "x").write_text("one")
    assert _digest(folder, cache, FRESH - 0.1) == _sha("one")
    assert _sha("one") not in (cache / "dsrun/hashes" / KEY).read_text()


def test_a_cache_that_is_damaged_or_cannot_be_written_is_none(tmp_path: Path) -> None:
    folder, cache = tmp_path / "proj", tmp_path / "cache"
    folder.mkdir()
    (folder / "x").write_text("one")
    _digest(folder, cache, FRESH + 1)
    for text in ("", "[]", "null", '["other", {}]'):
        (cache / "dsrun/hashes" / KEY).write_text(text)
        assert _digest(folder, cache, FRESH + 1) == _sha("one")
    (cache / "dsrun").chmod(0o755)
    assert _digest(folder, cache, FRESH + 1) == _sha("one")


def test_a_pipe_in_the_place_of_a_file_is_not_waited_for(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("one")
    (item,) = scan(str(tmp_path)).items
    (tmp_path / "x").unlink()
    os.mkfifo(tmp_path / "x")
    with pytest.raises(OSError, match="is a pipe, not a file"):
        Hashes(KEY, {"XDG_CACHE_HOME": str(tmp_path)}).of(str(tmp_path), item, 0.0)
