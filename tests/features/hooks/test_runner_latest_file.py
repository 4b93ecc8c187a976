"""A file that has the newest text."""

from __future__ import annotations

import os
import stat
import threading
from typing import TYPE_CHECKING

import pytest

from dsrun.launcher.features.hooks.runner_latest_file import LatestFile

from ...support.limits import HANG

if TYPE_CHECKING:
    from pathlib import Path

WAIT = HANG


def test_the_last_text_is_there_in_the_end(tmp_path: Path) -> None:
    path = tmp_path / "m"
    path.write_text("old")
    path.chmod(0o600)
    failures: list[str] = []
    one = LatestFile(str(path), failures.append, print)
    for text in ("a" * 100_000, "b", "last\n"):
        one.put(text)
    one.close(WAIT)
    assert path.read_text() == "last\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o644
    assert [*tmp_path.iterdir()] == [path]
    assert failures == []


def test_names_that_others_have_taken_do_not_matter(tmp_path: Path) -> None:
    """In a folder like /tmp anybody can, and knows the pid."""
    taken = [tmp_path / name for name in ("m.new", f"m.{os.getpid()}", f"m.{os.getpid()}.new")]
    for path in taken:
        path.mkdir()
    failures: list[str] = []
    one = LatestFile(str(tmp_path / "m"), failures.append, print)
    one.put("x")
    one.close(WAIT)
    assert failures == []
    assert (tmp_path / "m").read_text() == "x"
    assert {*tmp_path.iterdir()} == {tmp_path / "m", *taken}


def test_a_name_that_was_guessed_is_not_written_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "urandom", bytes)
    taken = tmp_path / f"m.{bytes(8).hex()}.new"
    taken.write_text("another user's")
    failures: list[str] = []
    one = LatestFile(str(tmp_path / "m"), failures.append, print)
    one.put("x")
    one.close(WAIT)
    assert failures == ["file exists"]
    assert taken.read_text() == "another user's"


def test_a_failure_is_told_once_and_leaves_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "m"
    folder.mkdir()
    failures: list[str] = []
    told = threading.Event()

    def failed(why: str) -> None:
        failures.append(why)
        told.set()

    one = LatestFile(str(folder), failed, print)
    one.put("x")
    assert told.wait(WAIT)
    one.put("y")
    one.close(WAIT)
    assert failures == ["is a directory"]
    assert [*tmp_path.iterdir()] == [folder]


def test_a_text_that_cannot_be_encoded_costs_only_itself(
    tmp_path: Path, unexpected_faults: list[Exception]
) -> None:
    failures: list[str] = []
    logged: list[str] = []
    told = threading.Event()

    def failed(why: str) -> None:
        failures.append(why)
        told.set()

    one = LatestFile(str(tmp_path / "m"), failed, lambda _text, level: logged.append(level))
    one.put("\ud800")
    assert told.wait(WAIT)
    one.put("y")
    one.close(WAIT)
    assert (tmp_path / "m").read_text() == "y"
    assert [one.partition(":")[0] for one in failures] == ["UnicodeEncodeError"]
    assert logged == ["debug"]
    unexpected_faults.clear()
