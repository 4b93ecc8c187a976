"""A command in a real child process."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

import pytest

from dsrun.launcher.common.loop import Loop
from dsrun.launcher.features.exec.runner_events import HostCommand
from dsrun.launcher.features.exec.runner_remote_shell import BOOT, pieces
from dsrun.launcher.features.exec.runner_shell_session import ShellSession

from ...support.leaks import open_files
from ...support.limits import HANG

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


class Ran:
    """A session on a loop, and what has come of it."""

    def __init__(self, *argv: str, boot: str = BOOT, reads: bool = False) -> None:
        self.loop = Loop()
        self.output = {1: b"", 2: b""}
        self.code: int | None = None
        self.rooms = 0
        self.on_output: Callable[[], None] = lambda: None
        shell = ["sh", "-c", boot]
        self.session = ShellSession(self.loop, shell, self._on_data, self._on_end, self._on_room)
        self.session.start(HostCommand(argv), reads=reads)

    def _on_data(self, stream: int, data: bytes) -> None:
        self.output[stream] += data
        self.on_output()

    def _on_end(self, code: int) -> None:
        self.code = code
        self.loop.stop()

    def _on_room(self) -> None:
        self.rooms += 1

    def wait(self) -> Ran:
        late = self.loop.call_later(HANG, lambda: pytest.fail("it does not end"))
        self.loop.run()
        late.cancel()
        return self


def test_output_errors_and_the_exit_code() -> None:
    before = open_files()
    ran = Ran("sh", "-c", "echo out; echo err >&2; exit 7").wait()
    assert (ran.output, ran.code) == ({1: b"out\n", 2: b"err\n"}, 7)
    assert ran.session.began
    assert ran.session.tail == b"err\n"
    assert ran.rooms >= 1, "it has told that the command began"
    ran.loop._epoll.close()
    assert open_files() <= before


def test_input_is_taken_and_ends(tmp_path: Path) -> None:
    go = tmp_path / "go"
    waits = 'until [ -e "$1" ]; do sleep 0.01; done; exec wc -c'
    ran = Ran("sh", "-c", waits, "sh", str(go), reads=True)
    ran.session.send(pieces(b"x" * 20_000_000))
    assert ran.session.backlog > 2_000_000
    go.touch()
    ran.session.send(pieces(b""))
    assert ran.wait().output[1].strip() == b"20000000"
    assert ran.session.backlog == 0


def test_what_fails_before_the_command_is_noise() -> None:
    ran = Ran("true", boot="echo hello; echo refused >&2; exit 255").wait()
    assert (ran.code, ran.session.began) == (255, False)
    assert ran.session.noise == "refused\n\nhello\n"
    assert ran.output == {1: b"", 2: b""}


def test_hanging_up_ends_the_command() -> None:
    ran = Ran("sh", "-c", "echo up; exec sleep 600")
    ran.on_output = ran.session.close_input
    assert ran.wait().code not in {0, None}


def test_a_process_left_behind_does_not_hold_up_the_end() -> None:
    ran = Ran("sh", "-c", "sleep 600 & echo $!").wait()
    assert ran.code == 0
    os.kill(int(ran.output[1]), signal.SIGKILL)


def test_killing_ends_the_process_once() -> None:
    ran = Ran("sleep", "600", boot="exec sleep 600")
    ran.session.kill()
    assert ran.wait().code == -signal.SIGTERM
    ran.session.kill()


def test_paused_output_waits() -> None:
    ran = Ran("sh", "-c", "echo one")
    ran.session.pause(True)
    ran.loop.call_later(0.2, ran.loop.stop)
    ran.loop.run()
    assert ran.output[1] == b""
    ran.session.pause(False)
    assert ran.wait().output[1] == b"one\n"
