"""What is known about failed workers: what their files have, if those answer."""

from __future__ import annotations

import json
import os
import signal
from typing import TYPE_CHECKING

import pytest

from dsrun.launcher.node.machine.blocking import Calls
from dsrun.launcher.node.run.failures import SECONDS, find
from dsrun.launcher.node.workers import error_file
from dsrun.launcher.node.workers.group import FailureDetails
from dsrun.launcher.node.workers.spawn import Process, WorkerSpec

from ...support.clock import Clock

if TYPE_CHECKING:
    from pathlib import Path

SILENCE = f"no answer from the file systems of failed workers for {SECONDS:g} s: the report lacks"
KNOWN = FailureDetails(
    {"3": ["", "No space left on device"]}, {"3": ["", ""]}, {"3": "/logs/err"}, {}
)


class Asked:
    """What was found of rank 3, and what was said."""

    def __init__(self, folder: Path) -> None:
        self.clock = Clock()
        self.calls = Calls(self.clock.loop)
        self.found: list[FailureDetails] = []
        self.lines: list[str] = []
        path = folder / "error.json"
        path.write_text(json.dumps({"message": {"message": "E: boom"}}))
        env = {b"TORCHELASTIC_ERROR_FILE": os.fsencode(path)}
        failed = [Process(WorkerSpec(3, [b"w"], env, os.fsencode(folder)), 1, -1, -1, -1)]
        find(self.calls, failed, KNOWN, self.lines.append, self.found.append)

    def answer(self) -> None:
        """Have the child end."""
        for pid in self.calls.pids:
            os.waitpid(pid, 0)
            self.clock.settle()
            self.calls.on_reaped({pid: 0})


def test_their_files_are_read(tmp_path: Path) -> None:
    asked = Asked(tmp_path)
    assert asked.found == []
    asked.answer()
    (found,) = asked.found
    assert found.recorded == {"3": ["E: boom", ""]}
    assert found.tails is KNOWN.tails
    assert found.logs is KNOWN.logs
    assert asked.lines == []


def test_file_systems_that_do_not_answer_are_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(error_file, "read", lambda _: signal.pause())
    asked = Asked(tmp_path)
    (child,) = asked.calls.pids
    asked.clock.go(SECONDS)
    assert asked.found == [KNOWN]
    assert asked.lines[0].startswith(SILENCE)
    assert asked.calls.stuck == {child}
    asked.answer()
    assert asked.calls.stuck == set()
    assert len(asked.found) == 1


def test_without_room_for_a_child_nothing_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none() -> int:
        raise BlockingIOError(11, "Resource temporarily unavailable")

    monkeypatch.setattr(os, "fork", none)
    asked = Asked(tmp_path)
    assert asked.found == [KNOWN]
    assert asked.lines[0].startswith(SILENCE)
