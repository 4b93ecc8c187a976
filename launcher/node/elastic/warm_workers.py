"""Spare workers for an elastic job's next round, which have imported what takes long to import."""

from __future__ import annotations

import json
import os
import signal
import socket

from ...common import loop as loops
from ...common.values import NamedTuple
from ...specs.environment import ROUND
from .. import processes
from ..shards import VARIABLE
from ..workers.spawn import Process, SpawnFailed, Spec, spawn

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

DELAY = 5.0
"""Seconds from a round's start to the first spare's: the round's own start-up comes first."""


class Spare(NamedTuple):
    """One worker to be.

    Attributes:
        model: the worker that it was made after.
        line: where it says that it is ready, and awaits its order.
    """

    model: Spec
    process: Process
    line: socket.socket


class Pool:
    """A node's spares, one for every worker, started one after another."""

    def __init__(
        self, loop: loops.Loop, made: Callable[[Spec, int], Spec], delay: float = DELAY
    ) -> None:
        """Be empty; `made` turns a worker and a descriptor for standard input into its spare."""
        self._loop = loop
        self._made = made
        self._delay = delay
        self._ready: list[Spare] = []
        self._starting: Spare | None = None
        self._wanted: list[Spec] = []
        self._timer: loops.Timer | None = None

    @property
    def pids(self) -> list[int]:
        """Those of the spares."""
        return [spare.process.pid for spare in self._spares()]

    @property
    def ready(self) -> int:
        """How many of them could become workers now."""
        return len(self._ready)

    def fill(self, workers: Sequence[Spec]) -> None:
        """Have a spare for each of these workers soon, and none for anybody else."""
        self.close()
        self._wanted = [worker for worker in workers if not worker.keep_stdin]
        self._timer = self._loop.after(self._delay, self._start_next)

    def hire(self, worker: Spec) -> Process:
        """Return this worker, started: a spare that is ready, where it could have been this worker.

        One that still imports is not waited for: a module that hangs would stop the job for ever.

        Raises:
            SpawnFailed: there is none, and it cannot be started.
        """
        for spare in [one for one in self._ready if _fits(one, worker)]:
            self._forget(spare)
            if _lives(spare.process) and _order(spare.line, worker):
                self._let_go(spare.line)
                spare.process.spec = worker
                return spare.process
            _end(spare)
        return spawn(worker)

    def close(self) -> None:
        """End all spares, and start no other."""
        if self._timer is not None:
            self._timer.cancel()
        self._wanted = []
        for spare in self._spares():
            self._forget(spare)
            _end(spare)

    def _spares(self) -> list[Spare]:
        """Return those that are ready, and the one that is not yet."""
        return [*self._ready, *([self._starting] if self._starting else [])]

    def _start_next(self) -> None:
        if not self._wanted:
            return
        worker = self._wanted.pop(0)
        ours, theirs = socket.socketpair()
        with theirs:
            try:
                process = spawn(self._made(worker, theirs.fileno()))
            except SpawnFailed:
                ours.close()
                return
        self._starting = spare = Spare(worker, process, ours)
        self._loop.watch(ours.fileno(), loops.READ, lambda: self._heard(spare))

    def _heard(self, spare: Spare) -> None:
        """Take in that a spare is ready, or that it has died."""
        starts, said = spare is self._starting, _said(spare.line)
        if not said:
            self._forget(spare)
            _end(spare)
        elif starts:
            self._ready.append(spare)
        if starts:
            self._starting = None
            self._start_next()

    def _let_go(self, line: socket.socket) -> None:
        """Close a line once the worker has: closed too early, it would take the order with it."""

        def heard() -> None:
            if not _said(line):
                self._loop.unwatch(line.fileno())
                line.close()

        self._loop.watch(line.fileno(), loops.READ, heard)

    def _forget(self, spare: Spare) -> None:
        self._loop.unwatch(spare.line.fileno())
        if spare is self._starting:
            self._starting = None
        else:
            self._ready.remove(spare)


def _fits(spare: Spare, worker: Spec) -> bool:
    """Tell whether all that counts before the order is the same."""
    return _lasting(spare.model) == _lasting(worker)


def _lasting(worker: Spec) -> Spec:
    passing = {VARIABLE, *map(os.fsencode, ROUND)}
    lasting = {name: value for name, value in worker.env.items() if name not in passing}
    return worker._replace(rank=0, env=lasting, fds=())


def _lives(process: Process) -> bool:
    try:
        return os.waitpid(process.pid, os.WNOHANG)[0] == 0
    except ChildProcessError:
        return False  # reaped with the others


def _order(line: socket.socket, worker: Spec) -> bool:
    """Send a spare the variables of its round, and its descriptors; False if it has just died."""
    order = json.dumps(_of_round(worker.env)).encode()
    try:
        sent = socket.send_fds(line, [order], worker.fds)
        line.sendall(order[sent:])
        line.shutdown(socket.SHUT_WR)
    except OSError:
        return False
    return True


def _said(line: socket.socket) -> bytes:
    try:
        return line.recv(1)
    except OSError:
        return b""  # it has died with an order unread


def _of_round(env: Mapping[bytes, bytes]) -> dict[str, str]:
    texts = {name.decode("utf-8", "surrogateescape"): value for name, value in env.items()}
    return {n: v.decode("utf-8", "surrogateescape") for n, v in texts.items() if n in ROUND}


def _end(spare: Spare) -> None:
    """Kill a spare, if that has not happened."""
    if _lives(spare.process):
        processes.send(spare.process.pid, signal.SIGKILL)
    spare.line.close()
    for fd in (spare.process.stdin, spare.process.stdout, spare.process.stderr):
        os.close(fd)
