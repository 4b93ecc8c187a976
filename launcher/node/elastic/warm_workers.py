"""Spare workers for an elastic job's next round, which have done the slow imports already."""

from __future__ import annotations

import json
import os
import signal
import socket

from ....accelerator.data import QUEUE_FD
from ...common import loop as loops
from ...common.values import NamedTuple
from ...specs.environment import ROUND
from .. import processes
from ..shards import VARIABLE
from ..workers.spawn import Process, SpawnFailed, WorkerSpec
from ..workers.spawn import spawn as spawn_cold

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

DELAY = 5.0
"""Seconds from the start of a round to that of the first spare, which must not slow it down."""


class WarmWorker(NamedTuple):
    """One spare.

    Attributes:
        model: the worker for which it was started.
        line: the socket on which it reports that it is ready, and waits for its order.
    """

    model: WorkerSpec
    process: Process
    line: socket.socket


class WarmWorkers:
    """The spares of a node, one for every worker, started one after another."""

    def __init__(
        self, loop: loops.Loop, made: Callable[[WorkerSpec, int], WorkerSpec], delay: float = DELAY
    ) -> None:
        """Begin without spares.

        `made` returns the command of a spare, given the worker and a descriptor for its stdin.
        """
        self._loop = loop
        self._made = made
        self._delay = delay
        self._ready: list[WarmWorker] = []
        self._starting: WarmWorker | None = None
        self._wanted: list[WorkerSpec] = []
        self._timer: loops.Timer | None = None

    @property
    def pids(self) -> list[int]:
        """The pids of the spares."""
        return [spare.process.pid for spare in self._spares()]

    @property
    def ready(self) -> int:
        """How many spares could become workers now."""
        return len(self._ready)

    def fill(self, workers: Sequence[WorkerSpec]) -> None:
        """Start a spare for each of these workers soon, and end all present ones."""
        self.close()
        self._wanted = [worker for worker in workers if not worker.keep_stdin]
        self._timer = self._loop.call_later(self._delay, self._start_next)

    def spawn(self, worker: WorkerSpec) -> Process:
        """Return this worker, started: from a spare that is ready and fits, else a new process.

        A spare that is still importing is not waited for: a module that hangs would stop the job.

        Raises:
            SpawnFailed: there is no such spare, and the worker cannot be started.
        """
        for spare in [one for one in self._ready if _fits(one, worker)]:
            self._forget(spare)
            if _lives(spare.process) and _order(spare.line, worker):
                self._let_go(spare.line)
                spare.process.spec = worker
                return spare.process
            _end(spare)
        return spawn_cold(worker)

    def close(self) -> None:
        """End all spares, and start no other."""
        if self._timer is not None:
            self._timer.cancel()
        self._wanted = []
        for spare in self._spares():
            self._forget(spare)
            _end(spare)

    def _spares(self) -> list[WarmWorker]:
        """Return those that are ready, and the one that is not yet."""
        return [*self._ready, *([self._starting] if self._starting else [])]

    def _start_next(self) -> None:
        if not self._wanted:
            return
        worker = self._wanted.pop(0)
        ours, theirs = socket.socketpair()
        with theirs:
            try:
                process = spawn_cold(self._made(worker, theirs.fileno()))
            except SpawnFailed:
                ours.close()
                return
        self._starting = spare = WarmWorker(worker, process, ours)
        self._loop.add_reader(ours.fileno(), lambda: self._heard(spare))

    def _heard(self, spare: WarmWorker) -> None:
        """Note that a spare is ready, or that it has died."""
        starts, ready = spare is self._starting, _received(spare.line)
        if not ready:
            self._forget(spare)
            _end(spare)
        elif starts:
            self._ready.append(spare)
        if starts:
            self._starting = None
            self._start_next()

    def _let_go(self, line: socket.socket) -> None:
        """Close a socket once the worker has; before, the order would be lost."""

        def heard() -> None:
            if not _received(line):
                self._loop.remove(line.fileno())
                line.close()

        self._loop.add_reader(line.fileno(), heard)

    def _forget(self, spare: WarmWorker) -> None:
        self._loop.remove(spare.line.fileno())
        if spare is self._starting:
            self._starting = None
        else:
            self._ready.remove(spare)


def _fits(spare: WarmWorker, worker: WorkerSpec) -> bool:
    """Return whether the spare was started just as this worker would be."""
    return _lasting(spare.model) == _lasting(worker)


def _lasting(worker: WorkerSpec) -> WorkerSpec:
    passing = {VARIABLE, *map(os.fsencode, ROUND)}
    lasting = {name: value for name, value in worker.env.items() if name not in passing}
    return worker._replace(rank=0, env=lasting, fds=())


def _lives(process: Process) -> bool:
    try:
        return os.waitpid(process.pid, os.WNOHANG)[0] == 0
    except ChildProcessError:
        return False  # reaped with the others


def _order(line: socket.socket, worker: WorkerSpec) -> bool:
    """Send a spare its order and its descriptors; return False if it has just died."""
    order = json.dumps(_of_round(worker.env)).encode()
    try:
        sent = socket.send_fds(line, [order], worker.fds)
        line.sendall(order[sent:])
        line.shutdown(socket.SHUT_WR)
    except OSError:
        return False
    return True


def _received(line: socket.socket) -> bytes:
    try:
        return line.recv(1)
    except OSError:
        return b""  # it died with an unread order


def _of_round(env: Mapping[bytes, bytes]) -> dict[str, str | None]:
    """Return the variables of a round; a descriptor has another number in the spare."""
    order: dict[str, str | None] = {
        name: env[key].decode("utf-8", "surrogateescape")
        for name in ROUND
        if (key := name.encode()) in env
    }
    return order | {QUEUE_FD: None} if VARIABLE in env else order


def _end(spare: WarmWorker) -> None:
    """Kill a spare unless it has ended, and close its files."""
    if _lives(spare.process):
        processes.send(spare.process.pid, signal.SIGKILL)
    spare.line.close()
    for fd in (spare.process.stdin, spare.process.stdout, spare.process.stderr):
        os.close(fd)
