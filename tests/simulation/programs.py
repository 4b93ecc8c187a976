"""What the workers of a world do: small programs, which call the simulated system themselves."""

from __future__ import annotations

import errno
import os
import signal
from typing import TYPE_CHECKING

from dsrun.launcher.common import system
from dsrun.launcher.common.loop import Loop

from .meeting import Meeting, PeerLost
from .scenario import EVERY
from .shards import Over, Shards

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import NoReturn

    from .scenario import Deed, ProgramSpec

FOREVER = 1e6
"""Seconds that a process lives which does not end by itself."""

SLOW = 1.0
"""Seconds that a worker needs to end after SIGTERM, if it is slow."""

HALF = 2.5
"""Seconds between two parts of a line: so long that the first is shown alone."""

BEFORE = 0.45
"""Seconds after the end of a worker after which what it has left begins to fork."""

HOPS = 3000
"""Processes that fork and leave, one after another."""

BOMB = 60
"""Children that a fork bomb has."""

RAISED = b"Traceback (most recent call last):\nRuntimeError: a step went wrong\n"


class Worker:
    """One worker: prints its lines, and does its deeds.

    Attributes:
        rank: its rank.
    """

    def __init__(
        self,
        spec: ProgramSpec,
        env: Mapping[bytes, bytes],
        life: int,
        number: int,
        tell: Callable[..., None],
        *,
        reads: bool,
    ) -> None:
        """Play it.

        Args:
            spec: what it does.
            env: its environment.
            life: the how-manieth of its rank it is.
            number: of its round.
            tell: is told what it does: the kind and the fields of an event of the history.
            reads: whether it reads standard input first.
        """
        self.rank = int(env[b"RANK"])
        self._spec = spec
        self._life = life
        self._number = number
        self._tell = tell
        self._reads = reads
        self._env = env
        self._meeting = Meeting(env) if spec.meets else None
        self._deeds = {
            one.step: one
            for one in spec.deeds
            if one.rank in {self.rank, EVERY} and one.life == life
        }

    def __call__(self) -> int:
        """Run to the end; return the exit code."""
        try:
            return self._run()
        except PeerLost as lost:
            self._tell("noticed", rank=self.rank)
            system.write(2, f"RuntimeError: [Rank {self.rank}] {lost}\n".encode())
            return 1

    def _run(self) -> int:
        if self._spec.term == "ignore":
            system.set_handler(signal.SIGTERM, signal.SIG_IGN)
        if self._spec.child:
            end, _kept = system.pipe2(os.O_CLOEXEC)
            system.fork(lambda: _child(self._spec.child, end, _kept))
        if self._meeting is not None:
            self._meeting.begin()
        if self._reads:
            self._read()
        if self._spec.shards:
            try:
                Shards(self._spec.shards, self._env, self._spec.pause).take_all(self._took_shard)
            except Over:
                return 1
        if self._spec.term == "slow":
            return self._slowly()
        for step in range(self._spec.steps + 1):
            if step in self._deeds:
                return self._do(self._deeds[step])
            self._step(step)
        if self._spec.serves:
            system.sleep(FOREVER)
        return 0

    def _step(self, step: int) -> None:
        if self._meeting is not None:
            self._meeting.wait()
        if step == self._spec.steps:
            return
        if self._spec.pause:
            system.sleep(self._spec.pause)
        self._print(step)

    def _took_shard(self, number: int) -> None:
        self._tell("shard", shard=number, rank=self.rank)

    def _printed(self, line: str) -> None:
        self._tell("printed", rank=self.rank, round=self._number, line=line)

    def _read(self) -> None:
        """Print what standard input has, line by line."""
        rest = b""
        while data := system.read(0, 4096):
            *lines, rest = (rest + data).split(b"\n")
            for line in lines:
                self._tell("took", rank=self.rank, line=line.decode())
                self._write(line.decode())

    def _print(self, step: int) -> None:
        word = f"rank {self.rank} life {self._life} step {step} "
        self._write(word + "x" * max(0, self._spec.length - len(word)))

    def _write(self, line: str) -> None:
        """Write a line; with `halves` there is a pause in the middle of those of rank 0."""
        data = line.encode() + b"\n"
        if self._spec.halves and self.rank == 0:
            half = len(line) // 2
            self._tell("begun", rank=self.rank, line=line, part=line[:half])
            _write(data[:half])
            system.sleep(HALF)
            data = data[half:]
        _write(data)
        self._printed(line)

    def _do(self, deed: Deed) -> int:
        word = {"exit": "crash", "raise": "crash"}.get(deed.what, deed.what)
        if word != "early" or self._meeting is not None:
            self._tell("fault", fault=word, target=self.rank)
        if self._spec.halves:
            line = f"rank {self.rank} life {self._life} last words"
            _write(line.encode())
            self._printed(line)
        if deed.what == "raise":
            system.write(2, RAISED)
        elif deed.what == "kill":
            system.kill(system.getpid(), deed.value)
        elif deed.what == "hang":
            system.sleep(FOREVER)
        return deed.value

    def _slowly(self) -> int:
        """Do the steps on a loop, and take a while to end after SIGTERM."""
        loop, code, steps = Loop(), [0], iter(range(self._spec.steps + 1))

        def go_on() -> None:
            step = next(steps, None)
            if step is None and self._spec.serves:
                return
            if step is None or step in self._deeds:
                code[0] = 0 if step is None else self._do(self._deeds[step])
                loop.stop()
                return
            if self._meeting is not None:
                self._meeting.wait()
            if step < self._spec.steps:
                self._print(step)
            loop.call_later(self._spec.pause, go_on)

        def on_signal(_number: int) -> None:
            code[0] = 128 + signal.SIGTERM
            loop.call_later(SLOW, loop.stop)

        loop.on_signals([signal.SIGTERM], on_signal)
        loop.call_later(0.0, go_on)
        loop.run()
        return code[0]


def _write(data: bytes) -> None:
    """Write all of it; end, as a Python program that does not expect it, if nobody reads."""
    while data:
        try:
            data = data[system.write(1, data) :]
        except BrokenPipeError:
            system.exit_now(120)


def _child(kind: str, end: int, kept: int) -> NoReturn:
    """Live beside a worker, or after it; `end` ends with the worker, which has `kept`."""
    if kind == "tied":
        system.prctl(1, signal.SIGKILL)
    elif kind in {"hops", "bomb"}:
        system.set_handler(signal.SIGTERM, signal.SIG_IGN)
        system.close(kept)
        system.read(end, 1)
        system.sleep(BEFORE)
        _hop() if kind == "hops" else _bomb()
    elif kind == "daemon":
        system.setsid()
        null = system.open_fd(os.devnull, os.O_RDWR)
        for fd in (0, 1, 2):
            system.dup2(null, fd)
    system.sleep(FOREVER)
    system.exit_now(0)


def _hop(left: int = HOPS) -> NoReturn:
    """Fork and leave, again and again."""
    if left:
        _fork(lambda: _hop(left - 1))
        system.exit_now(0)
    system.sleep(FOREVER)
    system.exit_now(0)


def _bomb() -> NoReturn:
    """Fork, and let the children fork and leave."""
    for _ in range(BOMB):
        _fork(lambda: _hop(5))
    system.sleep(FOREVER)
    system.exit_now(0)


def _fork(run: Callable[[], NoReturn]) -> None:
    """Fork; end, as a program that does not expect it, if the host is out of processes."""
    try:
        system.fork(run)
    except OSError:
        system.exit_now(1)


def run_tool(argv: Sequence[bytes]) -> Callable[[], int]:
    """Return what a command on a node does; `read` is any program of dsrun's own.

    Raises:
        OSError: there is no such program.
    """
    what = argv[-1].decode() if argv[0] == b"tool" else "read"
    if what == "absent":
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
    return lambda: _tool(what)


def _tool(what: str) -> int:
    if what == "stubborn":
        system.set_handler(signal.SIGTERM, signal.SIG_IGN)
    if what in {"sleep", "stubborn"}:
        system.sleep(FOREVER)
    while what == "read" and system.read(0, 1 << 16):
        pass
    for _ in range({"flood": 20, "print": 3}.get(what, 0)):
        system.sleep(0.01)
        _write(b"x" * (50_000 if what == "flood" else 10) + b"\n")
    return 7 if what == "print" else 0
