"""The second pair of eyes: a tiny process above the node launcher that outlives it.

The guard is what the backend started; the node launcher is its child and everything the job starts
is below that. Both adopt orphans. When the node launcher dies, however it dies, its descendants
become the guard's children and are killed; when the guard dies, the node launcher sees it and ends
the job. What signals the guard gets from a scheduler it tells the node launcher.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
from contextlib import suppress

from ..errors import LOST
from ..loop import READ
from ..values import NamedTuple
from . import kernel

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ..loop import Loop

PASSED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)
"""Signals of which the guard tells the node launcher."""


class Guard(NamedTuple):
    """The guard, as the node launcher knows it: its pid, and the line to it.

    Attributes:
        line: on it come the numbers of signals that the guard has got, a byte each.
    """

    pid: int
    line: socket.socket

    def watch(self, loop: Loop, heard: Callable[[int], None], died: Callable[[], None]) -> None:
        """Have `heard` told of the signals that the guard gets, and `died` of its end."""

        def hear() -> None:
            numbers = self.line.recv(64)
            if not numbers:
                loop.unwatch(self.line.fileno())
            for number in numbers:
                heard(number)

        def ended() -> None:
            loop.unwatch(fd)
            loop.unwatch(self.line.fileno())
            died()

        loop.watch(self.line.fileno(), READ, hear)
        try:
            fd = os.pidfd_open(self.pid)
        except OSError:
            died()
            return
        loop.watch(fd, READ, ended)

    def let_stay(self) -> None:
        """Have the guard leave alone what runs on when the node launcher has ended."""
        self.line.send(b"s")


def stand_guard() -> Guard:
    """Split this process in two: return in the child, the node launcher; guard it in the parent.

    Must be called while the process has one thread.
    """
    kernel.adopt_orphans()
    signal.pthread_sigmask(signal.SIG_BLOCK, {*PASSED, signal.SIGCHLD})
    ours, theirs = socket.socketpair()
    guard = os.getpid()
    pid = os.fork()
    if pid == 0:
        theirs.close()
        ours.setblocking(False)
        # Out of the group that an engine kills as one: of the two, one must live to sweep.
        os.setsid()
        kernel.adopt_orphans()
        signal.pthread_sigmask(signal.SIG_SETMASK, [])
        return Guard(guard, ours)
    ours.close()
    theirs.setblocking(False)
    os._exit(_watch(pid, theirs))


def _watch(launcher: int, line: socket.socket) -> int:
    _let_go_of_the_line()
    while True:
        number = signal.sigwait({*PASSED, signal.SIGCHLD})
        if number != signal.SIGCHLD:
            _tell(line, number)
            continue
        status = _reap(launcher)
        if status is not None:
            if not _may_stay(line):
                _sweep()
            return _verdict(status)


def _tell(line: socket.socket, number: int) -> None:
    with suppress(OSError):  # it is gone, and SIGCHLD is on its way
        line.send(bytes([number]))


def _may_stay(line: socket.socket) -> bool:
    try:
        return bool(line.recv(1))
    except OSError:
        return False  # killed while a worker that it had just forked still held its end


def _let_go_of_the_line() -> None:
    """Leave the control line to the node launcher alone, so that its end is seen at once."""
    null = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1):
        os.dup2(null, fd)
    os.close(null)


def _reap(launcher: int) -> int | None:
    """Take in what has ended; return the node launcher's wait status once it is among it."""
    found = None
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return found
        if pid == 0:
            return found
        if pid == launcher:
            found = status


def _sweep() -> None:
    """Kill children until there are none: what they leave behind becomes a child in its turn."""
    while [pid for pid in kernel.children() if kernel.send(pid, signal.SIGKILL)]:
        os.waitpid(-1, 0)


def _verdict(status: int) -> int:
    code = os.waitstatus_to_exitcode(status)
    if code >= 0:
        return code
    name = signal.Signals(-code).name
    sys.stderr.write(f"the node launcher was killed by {name}; its workers were swept\n")
    sys.stderr.flush()
    return LOST
