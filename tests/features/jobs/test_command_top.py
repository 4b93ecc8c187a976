"""The live view on a terminal and without one, of jobs that a test serves."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
import termios
import time
from functools import partial
from typing import TYPE_CHECKING

import pytest

from dsrun.launcher.common.poll import ready
from dsrun.launcher.control import local
from dsrun.launcher.features.jobs import command_top as job_top
from dsrun.launcher.features.jobs.command_names import NamedSocket
from dsrun.launcher.features.jobs.command_top import ShownJobs, as_json, once

from ...support import schemas
from ...support.checkout import BIN
from ...support.jobs import status, verbs
from ...support.limits import HANG
from ...support.local_control import Served, serving

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dsrun.launcher.features.jobs.runner_server import LocalCaller, Message, Verb


@pytest.fixture
def served() -> Iterator[Served]:
    """A running job."""
    known = verbs(status(), [])
    with serving(known) as server:
        yield server


def place(served: Served) -> NamedSocket:
    return NamedSocket(local.JOB, served.name)


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait for all answers, and not between two questions."""
    monkeypatch.setattr(job_top, "SLOW", HANG)
    monkeypatch.setattr(job_top, "PAUSE", 0.0)


@pytest.mark.usefixtures("patient")
def test_a_single_view_as_json(served: Served, capfd: pytest.CaptureFixture[str]) -> None:
    assert as_json(place(served)) == 0
    shown = json.loads(capfd.readouterr().out)
    assert schemas.faults("jobs", shown) == []
    (job,) = shown["jobs"]
    assert [len(job["ranks"]), len(job["used"]), len(job["used"][0]["devices"])] == [4, 2, 2]


@pytest.mark.usefixtures("patient")
def test_a_single_view_as_text(served: Served, capfd: pytest.CaptureFixture[str]) -> None:
    assert once(place(served)) == 0
    out = capfd.readouterr().out
    assert "4 ranks on 2 nodes" in out
    assert "node-01" in out
    assert "0%" in out, "of two samples"
    assert "\x1b" not in out


@pytest.mark.usefixtures("patient")
def test_one_role_is_asked_for(capfd: pytest.CaptureFixture[str]) -> None:
    """Of a job, whose answer for all its roles has no ranks."""
    known: dict[str, Verb] = verbs(status(), [])
    asked: list[object] = []

    def answer(name: str, caller: LocalCaller, request: Message, fds: list[int]) -> Message | None:
        asked.append((name, request.get("role")))
        return known[name](caller, request, fds)

    with serving({name: partial(answer, name) for name in known}) as served:
        assert as_json(place(served)._replace(role="server")) == 0
    assert set(asked) == {("status", "server"), ("usage", "server")}
    assert len(json.loads(capfd.readouterr().out)["jobs"]) == 1


def test_a_job_that_ends_is_known_to_have_ended(served: Served) -> None:
    jobs = ShownJobs(place(served))
    jobs.refresh(0.0)
    while jobs.waits:
        jobs.wait(HANG)
    (view,) = jobs.views(0.0)
    assert (view.problem, jobs.ended) == ("", False)
    jobs.refresh(10.0)
    (view,) = jobs.views(100.0)
    assert view.problem == "DOES NOT ANSWER"
    served.loop.call_soon_threadsafe(served.server.close)
    while not jobs.ended:
        jobs.wait(HANG)
    (view,) = jobs.views(100.0)
    assert view.problem == "HAS ENDED"
    jobs.close()


class Terminal:
    """The command on a terminal of its own."""

    def __init__(self, *words: str) -> None:
        self.line, theirs = pty.openpty()
        termios.tcsetwinsize(self.line, (30, 100))
        self.before = termios.tcgetattr(theirs)
        environ = {**os.environ, "TERM": "xterm"}
        argv = [sys.executable, str(BIN / "dsrun-job"), *words]
        self.process = subprocess.Popen(
            argv, stdin=theirs, stdout=theirs, stderr=theirs, env=environ, start_new_session=True
        )
        self.theirs = theirs
        self.text = ""

    def until(self, text: str) -> None:
        """Read until this has been shown."""
        end = time.monotonic() + HANG
        while text not in self.text:
            assert ready([self.line], end - time.monotonic()), self.text[-2000:]
            self.text += os.read(self.line, 65536).decode(errors="replace")

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self.line)
        os.close(self.theirs)


@pytest.fixture
def terminal(served: Served) -> Iterator[Terminal]:
    """The live view of the job."""
    shown = Terminal("top", served.name)
    yield shown
    shown.close()


@pytest.mark.parametrize("leave", ["q", "Q", signal.SIGINT, signal.SIGTERM])
def test_the_view_is_left_and_the_terminal_is_as_before(
    terminal: Terminal, leave: str | int
) -> None:
    terminal.until("4 ranks on 2 nodes")
    terminal.until("node-01")
    if isinstance(leave, str):
        os.write(terminal.line, leave.encode())
    else:
        terminal.process.send_signal(leave)
    terminal.until("\x1b[?1049l")
    assert terminal.process.wait(HANG) == 0
    assert termios.tcgetattr(terminal.theirs) == terminal.before


def test_the_view_ends_with_its_job(terminal: Terminal, served: Served) -> None:
    terminal.until("4 ranks on 2 nodes")
    served.loop.call_soon_threadsafe(served.server.close)
    terminal.until(f"dsrun-job: job {served.name} has ended")
    assert terminal.process.wait(HANG) == 0
