"""One fork of a preloader: it waits for its order, and then becomes a worker."""

from __future__ import annotations

import os
import signal
from enum import Enum

from ...node.machine import processes
from ...node.workers.spawn import pipes, started
from . import node_messages as messages

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Sequence
    from typing import Any

    from ...common.loop import Loop, Timer
    from ...node.workers.spawn import Process, WorkerSpec


EVERY = 1.0
"""Seconds between two checks whether an order was carried out."""

MOST = 30
"""Number of checks after which a fork is killed whose program does not run yet."""


class ForkPhase(Enum):
    """The phase of a fork; phases only advance.

    Attributes:
        ASKED: requested from the preloader.
        WAITING: a child of this process that waits for its order.
        ORDERED: it has received its order.
        CLOSED: its program runs, it has ended, or it could not be made.
    """

    ASKED = 1
    WAITING = 2
    ORDERED = 3
    CLOSED = 4


class Fork:
    """A fork, according to its socket.

    Attributes:
        pid: the pid of the fork, 0 while it is unknown.
    """

    def __init__(
        self,
        loop: Loop,
        line: socket.socket,
        changed: Callable[[Fork], None],
        note: Callable[[str], None],
    ) -> None:
        """Start to read the socket; `changed` is called after each change of phase read from it.

        `note` is called with messages for the user about the worker.
        """
        self.pid = 0
        self.phase = ForkPhase.ASKED
        self._loop = loop
        self._line = line
        self._changed = changed
        self._note = note
        self._rank = 0
        self._timer: Timer | None = None
        line.setblocking(False)
        loop.add_reader(line.fileno(), self._receive)

    @property
    def stopped(self) -> bool:
        """True if the fork was stopped (SIGSTOP), and would not carry out an order."""
        try:
            return processes.stat(self.pid)[0] in "Tt"
        except OSError:  # it has ended
            return False

    def order(self, spec: WorkerSpec, path: Sequence[bytes] = ()) -> Process | None:
        """Turn the fork into this worker; return None if the fork has just died.

        `path` has the folders of the worker's PYTHONPATH that the preloader's lacks.
        """
        theirs, ours = pipes()
        null = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        stdin = spec.stdin if spec.stdin >= 0 else theirs[0] if spec.keep_stdin else null
        try:
            messages.send(self._line, _order(spec, path), (stdin, *theirs[1:], *spec.fds))
        except OSError:
            for fd in ours:
                os.close(fd)
            self.close()
            return None
        finally:
            for fd in (*theirs, null):
                os.close(fd)
        self.phase, self._rank = ForkPhase.ORDERED, spec.rank
        self._await(MOST)
        return started(spec, self.pid, ours)

    def stop(self) -> None:
        """End the fork if it is not a worker; without a known pid, it ends on its own."""
        if self.phase is ForkPhase.WAITING:
            processes.send(self.pid, signal.SIGKILL)
        if self.phase is not ForkPhase.ORDERED:
            self.close()

    def close(self) -> None:
        """Close the socket."""
        if self.phase is not ForkPhase.CLOSED:
            self.phase = ForkPhase.CLOSED
            if self._timer is not None:
                self._timer.cancel()
            self._loop.remove(self._line.fileno())
            self._line.close()

    def _await(self, checks: int) -> None:
        """Kill the fork unless it has carried out its order by then.

        Checks are counted, not seconds, as the whole job may be stopped for a time.
        """
        if checks:
            self._timer = self._loop.call_later(EVERY, lambda: self._await(checks - 1))
        else:
            self._on_remark(
                {"error": f"the fork did not begin within {MOST * EVERY:.0f} s; killed"}
            )
            processes.send(self.pid, signal.SIGKILL)

    def _receive(self) -> None:
        try:
            received = messages.receive(self._line)
        except BlockingIOError:
            return
        except (OSError, ValueError, IndexError):
            received = None
        if received is None:
            self.close()
        elif self.phase is ForkPhase.ORDERED:
            self._on_remark(received[0])
        else:
            self._on_pid(received[0].get("pid"))
        self._changed(self)

    def _on_pid(self, pid: object) -> None:
        """Record its pid, if it is a child of this process: only children are signalled."""
        if isinstance(pid, int) and processes.parent(pid) == os.getpid():
            self.pid, self.phase = pid, ForkPhase.WAITING
        else:
            self.close()

    def _on_remark(self, message: dict[str, Any]) -> None:
        """Pass on why the worker imports for itself, or could not be started."""
        if why := message.get("cold"):
            self._note(f"rank {self._rank} imports its modules itself: {why}")
        elif why := message.get("error"):
            self._note(f"rank {self._rank} was not started: {why}")


def _order(spec: WorkerSpec, path: Sequence[bytes]) -> dict[str, object]:
    return {
        "argv": [_text(word) for word in spec.argv],
        "env": {_text(name): _text(value) for name, value in spec.env.items()},
        "workdir": _text(spec.workdir),
        "cpus": spec.cpus,
        "memory": spec.memory or ("", ()),
        "path": [_text(folder) for folder in path],
        "fds": spec.fds,
        "hook": _text(spec.hook),
    }


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")
