"""A runner that a test plays: the session of a node launcher is real, its line is a socket.

A history is a generator that speaks for the runner, and yields what it waits for. Time is the real
one, but that a history may skip some of it.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from dsrun.launcher import __version__
from dsrun.launcher.common.loop import Loop
from dsrun.launcher.control import frames, messages
from dsrun.launcher.control.stream import FrameStream
from dsrun.launcher.node.guard import Guard
from dsrun.launcher.node.session.session import Session
from dsrun.launcher.specs.program import Program

from .fake_nodes import NAMES
from .limits import HANG
from .tasks import task_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    Steps = Iterator[Callable[[], bool]]
    History = Callable[["FakeRunner"], Steps]

PATIENCE = HANG
"""Real seconds after which a history that waits for what never comes is given up."""

LOOK = 0.001
"""Seconds between two looks whether what a history waits for has come."""

TRAP = """
import os, signal, sys, time
def on_signal(number, frame):
    os.write(1, b'%d\\n' % number)
    {then}
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1):
    signal.signal(number, on_signal)
os.write(1, b'ready\\n')
while True: time.sleep(0.02)
"""
"""A worker that says which signals it gets."""


class FakeRunner:
    """The runner of one session, and all that has come from it.

    Attributes:
        received: (kind, body) of every frame.
        guard: a process that stands for the node launcher's guard.
        told: what the guard has been told, without what time alone has brought.
    """

    def __init__(self, folder: Path, *, joined: bool = False) -> None:
        self.folder = folder
        self.received: list[tuple[int, bytes]] = []
        self.told: list[bytes] = []
        self.closed = False
        self._skipped = 0.0
        self.loop = Loop(lambda: time.monotonic() + self._skipped)
        self._decoder = frames.Decoder()
        self._socket, theirs = socket.socketpair()
        kind = socket.SOCK_SEQPACKET | socket.SOCK_NONBLOCK
        self._guards, guards = socket.socketpair(type=kind)
        with theirs:
            line = FrameStream(os.dup(theirs.fileno()), os.dup(theirs.fileno()))
        self.guard = subprocess.Popen(["/bin/sleep", "600"])
        self.session = Session(line, self.loop, Guard(self.guard.pid, guards), joined=joined)
        self.loop.add_reader(self._socket.fileno(), self._read)
        self.loop.add_reader(self._guards.fileno(), self._hear)
        self._keep = guards

    def play(self, history: History) -> int:
        """Serve the session with this history to its end; returns the exit code."""
        steps = history(self)
        holds: Callable[[], bool] = lambda: True  # noqa: E731
        began = time.monotonic()

        def go_on() -> None:
            nonlocal holds
            assert time.monotonic() - began < PATIENCE, f"late: {self.names()}"
            while holds():
                holds = next(steps, lambda: False)
            self.loop.call_later(LOOK, go_on)

        self.loop.call_later(0.0, go_on)
        try:
            return self.session.run()
        finally:
            with suppress(OSError):
                self._read()
            with suppress(OSError):
                while self.told[-1:] != [b""]:
                    self._hear()
            self.close()

    def close(self) -> None:
        """End what a test may have left."""
        self.guard.kill()
        with suppress(ChildProcessError):
            self.guard.wait()
        for one in (self._socket, self._guards, self._keep):
            if one.fileno() >= 0:
                self.loop.remove(one.fileno())
            one.close()

    # -- what the runner says ---------------------------------------------------------------

    def sends(self, kind: int, body: bytes = b"") -> None:
        """Send a frame."""
        self._socket.sendall(frames.pack(kind, body))

    def job(self, *shell: str, **fields: Any) -> None:
        """Send JOB for a shell text, or for what `program` says."""
        program = Program("/bin/sh", ("-c", *shell), no_python=True, local_rank=False)
        usual: dict[str, Any] = {
            "dsrun": __version__,
            "job_id": "j",
            "host": "n0",
            "program": program,
            "workdir": str(self.folder),
            "env": {"DSRUN_ACCELERATOR": "cpu"},
            "slots": (0,),
            "port": None,
            "lease": 1e6,
        }
        self.says(frames.JOB, task_of(**usual | fields))

    def start(self, **fields: Any) -> None:
        """Send START for one worker, unless there are more slots."""
        usual: dict[str, Any] = {
            "first_rank": 0,
            "slots": (0,),
            "world_size": 1,
            "node_rank": 0,
            "nodes": 1,
            "master_addr": "127.0.0.1",
            "master_port": 29500,
            "credit": 1 << 20,
        }
        self.says(frames.START, messages.Start(**usual | fields))

    def round(self, generation: int = 1) -> None:
        """Send ROUND for one worker."""
        start = messages.Start(0, (0,), 1, 0, 1, "127.0.0.1", 29500, 1 << 20, generation=generation)
        self.says(frames.ROUND, start)

    def stop(self, number: int = signal.SIGTERM, grace: float = 30.0) -> None:
        """Send STOP."""
        self.says(frames.STOP, messages.Stop(number, grace))

    def end(self, code: int = 0, story: str = "") -> None:
        """Send END."""
        self.says(frames.END, messages.SessionEnd(code, story))

    def says(self, kind: int, message: Any) -> None:
        """Send a message."""
        self._socket.sendall(messages.pack(kind, message))

    def reads_nothing(self) -> None:
        """Read no more of what comes."""
        self.loop.remove(self._socket.fileno())

    def reads_on(self) -> None:
        """Read again."""
        self.loop.add_reader(self._socket.fileno(), self._read)

    def leaves(self) -> None:
        """Close the line without a word."""
        self.loop.remove(self._socket.fileno())
        self._socket.close()

    def guard_got(self, *numbers: int) -> None:
        """Have the guard pass on signals that it has got."""
        self._guards.send(bytes(numbers))

    def skip(self, seconds: float) -> Callable[[], bool]:
        """Let so much time pass, once what has been said was read; wait for what is due by then."""
        seen: list[bool] = []

        def pass_by() -> None:
            self.leap(seconds)
            self.loop.call_later(LOOK, lambda: seen.append(True))

        self.loop.call_later(LOOK, pass_by)
        return lambda: bool(seen)

    def leap(self, seconds: float) -> None:
        """Let so much time have passed."""
        self._skipped += seconds

    # -- what has come ----------------------------------------------------------------------

    def got(self, kind: int, times: int = 1) -> Callable[[], bool]:
        """Return whether so many frames of a kind have come, to be asked again and again."""
        return lambda: sum(one == kind for one, _ in self.received) >= times

    def prints(self, text: str) -> Callable[[], bool]:
        """Return whether the workers have printed this, to be asked again and again."""
        return lambda: text in self.output()

    def output(self) -> str:
        """All that the workers have printed."""
        found = [frames.unpack_output(body)[2] for kind, body in self.received if kind == 35]
        return b"".join(found).decode()

    def names(self) -> list[str]:
        """What has come, by name, without signs of life, and output, which may be in pieces."""
        left_out = (frames.BEAT, frames.OPENED, frames.OUTPUT)
        return [NAMES[kind] for kind, _ in self.received if kind not in left_out]

    def all(self, kind: int) -> list[dict[str, Any]]:
        """The messages of this kind."""
        return [json.loads(body) for one, body in self.received if one == kind]

    def beats(self) -> int:
        """How many beats have come."""
        return sum(kind == frames.BEAT for kind, _ in self.received)

    def exits(self) -> list[tuple[int, int, bool]]:
        """(rank, code, signalled) of every EXIT."""
        return [(one["rank"], one["code"], one["signalled"]) for one in self.all(frames.EXIT)]

    def notes(self) -> list[tuple[str, int]]:
        """(text, signal) of every NOTE."""
        return [(one["text"], one["signal"]) for one in self.all(frames.NOTE)]

    def _read(self) -> None:
        data = b""
        with suppress(OSError):
            data = self._socket.recv(1 << 20, socket.MSG_DONTWAIT)
        self.received += self._decoder.feed(data)
        if not data and not self.closed:
            self.closed = True
            if self._socket.fileno() >= 0:
                self.loop.remove(self._socket.fileno())

    def _hear(self) -> None:
        word = self._guards.recv(4096)
        if word not in self.told[-1:]:
            self.told.append(word)
        if not word:
            self.loop.remove(self._guards.fileno())


WAITS = Program(
    sys.executable,
    ("-ISc", TRAP.format(then="number == signal.SIGUSR1 or sys.exit(3)")),
    no_python=True,
    local_rank=False,
)
"""Waits until it is stopped, and says which signals it gets."""

STUBBORN = WAITS._replace(args=("-ISc", TRAP.format(then="pass")))
"""Is ended by nothing but SIGKILL."""


def prepared(r: FakeRunner, *shell: str, **fields: object) -> Steps:
    """Send JOB, and wait for HELLO."""
    times = r.names().count("HELLO") + 1
    r.job(*shell, **fields)
    yield r.got(frames.HELLO, times)


def ran(r: FakeRunner, *shell: str, **fields: object) -> Steps:
    """One run from JOB to DONE."""
    times = r.names().count("DONE") + 1
    yield from prepared(r, *shell, **fields)
    r.start()
    yield r.got(frames.DONE, times)


def running(r: FakeRunner, program: Program = WAITS, **fields: object) -> Steps:
    """A run whose worker is ready for signals."""
    times = r.output().count("ready") + 1
    yield from prepared(r, program=program, **fields)
    r.start()
    yield lambda: r.output().count("ready") >= times


def stopped(r: FakeRunner) -> Steps:
    """Stop what runs, and wait for DONE."""
    times = r.names().count("DONE") + 1
    r.stop()
    yield r.got(frames.DONE, times)


def between(r: FakeRunner) -> Steps:
    """A run is over, and the next has not come."""
    yield from ran(r, "exit 0")
