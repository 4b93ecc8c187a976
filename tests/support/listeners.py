"""A real listener on a real loop, and callers who may enter."""

from __future__ import annotations

import sys
import threading
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

import pytest

from dsrun.launcher.common.loop import Loop
from dsrun.launcher.control import auth, frames, messages, tls
from dsrun.launcher.control.stream import StreamClosed
from dsrun.launcher.head.fleet.listener import Listener
from dsrun.launcher.head.fleet.rejections import NO_PROOF, Rejected, Rejections

from .limits import HANG

if TYPE_CHECKING:
    from collections.abc import Iterator

HERE = ["127.0.0.1"]
TOKEN = "token"


class Runner:
    """The real listener on a loop of its own in a thread; callers that enter are echoed.

    Attributes:
        admitted: the credentials of those that entered.
        verdict: what it says to each with the token: yes, wait (False), or why not.
        expected: how many there are; once so many have entered, all are here.
        told: lines on those that it rejected.
        logged: messages, each behind its level.
    """

    def __init__(self) -> None:
        context, self.pin = tls.make_certificate()
        self.loop = Loop()
        self.loop.open_to_threads()
        self.admitted: list[auth.Credentials] = []
        self.lines: list[tls.TlsStream] = []
        self.told: list[str] = []
        self.logged: list[tuple[str, str]] = []
        self.asked = threading.Event()
        self.verdict: bool | str = True
        self.expected = sys.maxsize
        self.rejections = Rejections(self.loop, self.told.append)
        self.listener = Listener(self.loop, context, HERE, 0, self, self.rejections.add, self._log)
        self._thread = threading.Thread(target=self.loop.run)
        self._thread.start()

    def _log(self, text: str, level: str) -> None:
        self.logged.append((level, text))

    @property
    def complete(self) -> bool:
        return len(self.admitted) >= self.expected

    def verify(self, credentials: auth.Credentials) -> bool:
        self.asked.set()
        verdict = self.verdict if credentials.proof == TOKEN else NO_PROOF
        if isinstance(verdict, str):
            raise Rejected(verdict)
        return verdict

    def admit(self, credentials: auth.Credentials, line: tls.TlsStream) -> None:
        self.admitted.append(credentials)
        self.lines.append(line)
        line.send(frames.pack(frames.WELCOME))
        self.loop.add_reader(line.read_fd, lambda: self._echo(line))
        self._echo(line)

    def _echo(self, line: tls.TlsStream) -> None:
        try:
            for kind, body in line.receive():
                line.send(frames.pack(kind, body))
            if line.pending:
                self.loop.add_writer(line.write_fd, lambda: self._more(line))
        except StreamClosed:
            self.loop.remove(line.read_fd)

    def _more(self, line: tls.TlsStream) -> None:
        line.flush()
        if not line.pending:
            self.loop.remove_writer(line.write_fd)

    def close(self) -> None:
        def end() -> None:
            self.listener.close()
            for line in self.lines:
                self.loop.remove(line.read_fd)
                line.close()
            self.loop.stop()

        self.loop.call_soon_threadsafe(end)
        self._thread.join(HANG)
        assert not self._thread.is_alive()


@pytest.fixture
def runner() -> Iterator[Runner]:
    with closing(Runner()) as runner:
        yield runner


@contextmanager
def dialled(runner: Runner, pin: str | None = None) -> Iterator[tls.TlsStream]:
    line, seen = tls.dial(HERE, runner.listener.port, runner.pin if pin is None else pin, HANG)
    with closing(line):
        assert seen == runner.pin
        yield line


def identify(line: tls.TlsStream) -> None:
    line.send(messages.pack(frames.AUTH, auth.Credentials("w0", TOKEN)))


def enter(line: tls.TlsStream) -> None:
    identify(line)
    assert line.wait_for_one(HANG) == (frames.WELCOME, b"")
