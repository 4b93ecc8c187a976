"""How workers learn of a coming change."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

import pytest

from dsrun.launcher.common import system
from dsrun.launcher.features.elastic.node_change_notice import SECONDS, ChangeNotice
from dsrun.launcher.node.machine.blocking import Calls

from ...support.clock import Clock

if TYPE_CHECKING:
    from pathlib import Path


class Given:
    """A notice, the signals that it sends and what it says.

    Attributes:
        ends: how often the end of a notice was told.
    """

    def __init__(self, how: str, folder: Path) -> None:
        self.signals: list[int] = []
        self.lines: list[str] = []
        self.ends = 0
        self.clock = Clock()
        self.calls = Calls(self.clock.loop)
        self.notice = ChangeNotice(how, os.fsencode(folder), self.lines.append, self.calls)

    def give(self) -> None:
        """Give it, and have its child answer."""
        self.notice.give(self.signals.append)
        self.answer()

    def end(self) -> None:
        """End it, and have its child answer."""
        before = self.ends
        self.notice.close(self._ended)
        self.answer()
        assert self.ends == before + 1

    def _ended(self) -> None:
        self.ends += 1

    def answer(self) -> None:
        """Have the children end, and those that follow."""
        while self.calls.pids:
            for pid in self.calls.pids:
                os.waitpid(pid, 0)
                self.clock.settle()
                self.calls.on_reaped({pid: 0})


def test_a_signal(tmp_path: Path) -> None:
    given = Given("SIGUSR2", tmp_path)
    given.give()
    given.end()
    assert (given.signals, given.lines, list(tmp_path.iterdir())) == ([signal.SIGUSR2], [], [])


@pytest.mark.parametrize("how", ["soon", "{folder}/soon"])
def test_a_file_that_is_there_until_the_round_is_over(tmp_path: Path, how: str) -> None:
    given = Given(how.replace("{folder}", str(tmp_path)), tmp_path)
    given.end()
    for _ in range(2):
        given.give()
        given.give()
        assert [one.name for one in tmp_path.iterdir()] == ["soon"]
        given.end()
        assert list(tmp_path.iterdir()) == []
    assert (given.signals, given.lines) == ([], [])


def test_another_nodes_file_is_left_alone(tmp_path: Path) -> None:
    """On a shared file system the first node's is everybody's."""
    (tmp_path / "soon").touch()
    given = Given("soon", tmp_path)
    given.give()
    given.end()
    assert (tmp_path / "soon").exists()
    assert given.lines == []


def test_a_file_that_somebody_else_has_taken_away(tmp_path: Path) -> None:
    given = Given("soon", tmp_path)
    given.give()
    (tmp_path / "soon").unlink()
    given.end()


def test_nothing(tmp_path: Path) -> None:
    given = Given("", tmp_path)
    given.give()
    given.end()
    assert (given.signals, given.lines, list(tmp_path.iterdir())) == ([], [], [])


def test_a_file_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    given = Given("no/such", tmp_path)
    given.give()
    given.end()
    assert given.lines == [f"--change_notice {tmp_path}/no/such: no such file or directory"]


def test_a_round_that_ends_while_the_file_is_made_leaves_none(tmp_path: Path) -> None:
    """The end waits for the file; another call of it takes the place of the first."""
    given = Given("soon", tmp_path)
    given.notice.give(given.signals.append)
    given.notice.close(lambda: given.lines.append("a former end"))
    given.end()
    assert (list(tmp_path.iterdir()), given.lines) == ([], [])


def test_a_file_system_that_does_not_answer_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = Given("soon", tmp_path)
    with monkeypatch.context() as silent:
        silent.setattr(system, "open_fd", lambda *_: signal.pause())
        given.notice.give(given.signals.append)
    given.notice.close(given._ended)
    given.clock.go(0.0)
    assert given.ends == 0
    given.clock.go(SECONDS)
    assert given.ends == 1
    path = f"--change_notice {tmp_path}/soon"
    assert given.lines == [f"{path}: no answer from its file system for 5 s"]
    given.answer()
    assert given.ends == 1


def test_without_room_for_a_child_it_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none() -> int:
        raise BlockingIOError(11, "Resource temporarily unavailable")

    monkeypatch.setattr(os, "fork", none)
    given = Given("soon", tmp_path)
    given.give()
    given.end()
    (line,) = given.lines
    assert line.lower().endswith("soon: resource temporarily unavailable")
