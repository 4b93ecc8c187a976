"""How workers learn of a coming change."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

import pytest

from dsrun.launcher.node.elastic.change_notice import ChangeNotice

if TYPE_CHECKING:
    from pathlib import Path


class Given:
    """A notice, the signals that it sends and what it says."""

    def __init__(self, how: str, folder: Path) -> None:
        self.signals: list[int] = []
        self.lines: list[str] = []
        self.notice = ChangeNotice(how, os.fsencode(folder), self.lines.append)

    def give(self) -> None:
        self.notice.give(self.signals.append)


def test_a_signal(tmp_path: Path) -> None:
    given = Given("SIGUSR2", tmp_path)
    given.give()
    given.notice.end()
    assert (given.signals, given.lines, list(tmp_path.iterdir())) == ([signal.SIGUSR2], [], [])


@pytest.mark.parametrize("how", ["soon", "{folder}/soon"])
def test_a_file_that_is_there_until_the_round_is_over(tmp_path: Path, how: str) -> None:
    given = Given(how.replace("{folder}", str(tmp_path)), tmp_path)
    given.notice.end()
    for _ in range(2):
        given.give()
        given.give()
        assert [one.name for one in tmp_path.iterdir()] == ["soon"]
        given.notice.end()
        assert list(tmp_path.iterdir()) == []
    assert (given.signals, given.lines) == ([], [])


def test_another_nodes_file_is_left_alone(tmp_path: Path) -> None:
    """On a shared file system the first node's is everybody's."""
    (tmp_path / "soon").touch()
    given = Given("soon", tmp_path)
    given.give()
    given.notice.end()
    assert (tmp_path / "soon").exists()
    assert given.lines == []


def test_a_file_that_somebody_else_has_taken_away(tmp_path: Path) -> None:
    given = Given("soon", tmp_path)
    given.give()
    (tmp_path / "soon").unlink()
    given.notice.end()


def test_nothing(tmp_path: Path) -> None:
    given = Given("", tmp_path)
    given.give()
    given.notice.end()
    assert (given.signals, given.lines, list(tmp_path.iterdir())) == ([], [], [])


def test_a_file_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    given = Given("no/such", tmp_path)
    given.give()
    given.notice.end()
    assert given.lines == [f"--change_notice {tmp_path}/no/such: no such file or directory"]
