"""A real door on a real loop, and callers who may enter."""

from __future__ import annotations

import threading
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

import pytest

from dsrun.launcher.common.loop import Loop
from dsrun.launcher.control import auth, frames, messages, tls
from dsrun.launcher.control.line import LineClosed
from dsrun.launcher.head.fleet.listener import NO_PROOF, Door
from dsrun.launcher.head.fleet.refusals import Refusals

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dsrun.launcher.head.fleet.listener import Verdict

HERE = ["127.0.0.1"]
TOKEN = "token"


class Runner:
    """The real door on a loop of its own in a thread; callers that enter are echoed.

    Attributes:
        claims: those that entered.
        verdict: what it says to each claim with the token.
        told: lines on those that it rejected.
    """

    def __init__(self) -> None:
        context, self.pin = tls.make_certificate()
        self.loop = Loop()
        self.loop.open_to_threads()
        self.claims: list[auth.Claim] = []
        self.lines: list[tls.TlsLine] = []
        self.told: list[str] = []
        self.asked = threading.Event()
        self.verdict: Verdict = "yes"
        self.refusals = Refusals(self.loop, self.told.append)
        self.door = Door(self.loop, context, HERE, 0, self._verify, self._enter, self.refusals.add)
        self._thread = threading.Thread(target=self.loop.run)
        self._thread.start()

    def _verify(self, claim: auth.Claim) -> Verdict:
        self.asked.set()
        return self.verdict if claim.proof == TOKEN else NO_PROOF

    def _enter(self, claim: auth.Claim, line: tls.TlsLine) -> None:
        self.claims.append(claim)
        self.lines.append(line)
        line.send(frames.pack(frames.WELCOME))
        self.loop.watch(line.read_fd, 1, lambda: self._echo(line))
        self._echo(line)

    def _echo(self, line: tls.TlsLine) -> None:
        try:
            for kind, body in line.receive():
                line.send(frames.pack(kind, body))
            if line.pending:
                self.loop.watch(line.write_fd, 2, lambda: self._more(line))
        except LineClosed:
            self.loop.unwatch(line.read_fd)

    def _more(self, line: tls.TlsLine) -> None:
        line.flush()
        if not line.pending:
            self.loop.unwatch(line.write_fd, 2)

    def close(self) -> None:
        def end() -> None:
            self.door.close()
            for line in self.lines:
                self.loop.unwatch(line.read_fd)
                line.close()
            self.loop.stop()

        self.loop.post(end)
        self._thread.join(10)
        assert not self._thread.is_alive()


@pytest.fixture
def runner() -> Iterator[Runner]:
    with closing(Runner()) as runner:
        yield runner


@contextmanager
def dialled(runner: Runner, pin: str | None = None) -> Iterator[tls.TlsLine]:
    line, seen = tls.dial(HERE, runner.door.port, runner.pin if pin is None else pin, 10.0)
    with closing(line):
        assert seen == runner.pin
        yield line


def claim(line: tls.TlsLine) -> None:
    line.send(messages.pack(frames.AUTH, auth.Claim("w0", TOKEN)))


def enter(line: tls.TlsLine) -> None:
    claim(line)
    assert line.wait_for_one(10.0) == (frames.WELCOME, b"")
