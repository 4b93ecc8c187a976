"""A file that has the newest text."""

from __future__ import annotations

import stat
import threading
from typing import TYPE_CHECKING

from dsrun.launcher.head.hooks.latest_file import LatestFile

from ...support.limits import HANG

if TYPE_CHECKING:
    from pathlib import Path

WAIT = HANG


def test_the_last_text_is_there_in_the_end(tmp_path: Path) -> None:
    path = tmp_path / "m"
    path.write_text("old")
    path.chmod(0o600)
    failures: list[OSError] = []
    one = LatestFile(str(path), failures.append)
    for text in ("a" * 100_000, "b", "last\n"):
        one.put(text)
    one.close(WAIT)
    assert path.read_text() == "last\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o644
    assert [*tmp_path.iterdir()] == [path]
    assert failures == []


def test_a_failure_is_told_once_and_leaves_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "m"
    folder.mkdir()
    failures: list[OSError] = []
    told = threading.Event()

    def failed(error: OSError) -> None:
        failures.append(error)
        told.set()

    one = LatestFile(str(folder), failed)
    one.put("x")
    assert told.wait(WAIT)
    one.put("y")
    one.close(WAIT)
    assert len(failures) == 1
    assert [*tmp_path.iterdir()] == [folder]
