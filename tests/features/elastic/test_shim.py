"""What torch's agent starts in a worker's place: signals go through it, and the worker's end."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

import dsrun.launcher.features.elastic

from ...support.limits import HANG

if TYPE_CHECKING:
    from collections.abc import Iterator

PROGRAM = Path(dsrun.launcher.features.elastic.__file__).with_name("shim.py")
SAID = {"RANK": "5", "LOCAL_RANK": "1", "TORCHELASTIC_RESTART_COUNT": "2"}


class Standin(NamedTuple):
    """A stand-in that runs, what it said at the desk, and the line that it handed in."""

    process: subprocess.Popen[bytes]
    said: dict[str, str]
    line: socket.socket

    def end(self, code: int) -> int:
        """Tell it how its worker ended; returns how it ends itself."""
        self.line.send(code.to_bytes(4, "big", signed=True))
        return self.wait()

    def wait(self) -> int:
        """How it ends: the code, or the signal below zero."""
        return self.process.wait(HANG)


@contextmanager
def hired() -> Iterator[Standin]:
    """Start a stand-in as torch's agent does, whose standard input is the desk."""
    ours, desk = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    argv = [sys.executable, "-E", "-S", str(PROGRAM)]
    with ours:
        ours.settimeout(HANG)
        with desk:
            env = {**os.environ, **SAID, "OTHER": "no"}
            process = subprocess.Popen(argv, stdin=desk.fileno(), env=env)
        try:
            data, fds, _, _ = socket.recv_fds(ours, 65536, 1)
            assert fds, "it ended without a word"
            with socket.socket(fileno=fds[0]) as line:
                line.settimeout(HANG)
                yield Standin(process, json.loads(data), line)
        finally:
            process.kill()
            process.wait()


def test_it_says_for_whom_it_stands_and_ends_as_well_as_its_worker() -> None:
    with hired() as standin:
        assert standin.said == SAID
        assert standin.process.poll() is None
        assert standin.end(0) == 0


def test_two_at_one_desk_have_a_line_each() -> None:
    with hired() as first, hired() as second:
        assert second.end(3) == 3
        assert first.end(4) == 4


@pytest.mark.parametrize("code", [1, 7, 255, -signal.SIGTERM, -signal.SIGUSR1, -signal.SIGKILL])
def test_it_ends_with_its_workers_code_or_of_the_same_signal(code: int) -> None:
    with hired() as standin:
        assert standin.end(code) == code


def test_signals_are_passed_on_and_the_worker_decides() -> None:
    with hired() as standin:
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
            standin.process.send_signal(number)
            assert standin.line.recv(1) == bytes([number])
        assert standin.end(7) == 7


def test_its_end_is_the_end_of_its_line() -> None:
    with hired() as standin:
        standin.process.kill()
        assert standin.line.recv(1) == b""


def test_without_its_line_it_ends_but_not_well() -> None:
    with hired() as standin:
        standin.line.close()
        assert standin.wait() != 0
