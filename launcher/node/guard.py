"""The guard: a small process above the node launcher, which outlives it.

The backend starts the guard. The node launcher is the guard's child, and all processes of the job
are below the node launcher. Both adopt orphans. When the node launcher dies for any reason, its
descendants become the guard's children and are killed. When the guard dies, the node launcher
notices, and ends the job. A node launcher that shows no sign of life (stopped, or stuck) is killed
by the guard together with its descendants; while it waits for a disk, it neither ends nor releases
them. The guard reports signals from a scheduler to the node launcher.
"""

from __future__ import annotations

import os
import signal
import socket
from contextlib import suppress

from ..common import system
from ..common.errors import LOST, SWEPT
from ..common.loop import Loop
from .machine import descendants, processes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from typing import NoReturn

    from ..common.loop import Timer

PASSED = (
    *(signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT),
    *(signal.SIGUSR1, signal.SIGUSR2),
)
"""Signals that the guard reports to the node launcher."""

MESSAGE = 65536
"""Greatest size of one message from the node launcher, in bytes."""

SIGNS = 4
"""Number of signs of life within the time for which the node launcher may be silent."""

INITIAL_SILENCE = 660.0
"""Seconds for which the node launcher may be silent before it sets a limit, and during the checks
for a JOB. It exits on its own after nearly this time without a START."""

STAY, SPARE = b"stay", b"spare"
"""Messages to the guard: all processes left by the node launcher may stay, or only these pids."""

SECRET = 16
"""Bytes of the secret at the beginning of each message to the guard. Only these two processes know
it: no child that executes a program does, even if it takes the socket (pidfd_getfd(2))."""


def received(line: socket.socket) -> bytes:
    """Return the next message; b"" at the end, even if the other end has not read all of ours."""
    try:
        return line.recv(64)
    except ConnectionResetError:
        return b""


class Guard:
    """The guard, as seen by the node launcher."""

    def __init__(self, pid: int, line: socket.socket, secret: bytes = b"") -> None:
        """Communicate with the guard over `line`.

        The guard sends the numbers of the signals that it receives, one byte each. It receives
        signs of life, each with the number of seconds after which it acts if no other follows. It
        ignores messages that do not begin with the secret.
        """
        self.pid = pid
        self._line = line
        self._secret = secret
        self._timer: Timer | None = None
        self._fd = -1

    def watch(
        self, loop: Loop, on_signal: Callable[[int], None], on_end: Callable[[], None]
    ) -> None:
        """Call `on_signal` with each signal that the guard receives, and `on_end` when it ends."""

        def receive() -> None:
            numbers = received(self._line)
            if not numbers:
                loop.remove(self._line.fileno())
            for number in numbers:
                if number in PASSED:
                    on_signal(number)

        def ended() -> None:
            loop.remove(self._fd)
            loop.remove(self._line.fileno())
            on_end()

        loop.add_reader(self._line.fileno(), receive)
        try:
            self._fd = system.pidfd_open(self.pid)
        except OSError:
            on_end()
            return
        loop.add_reader(self._fd, ended)

    def wake(self) -> None:
        """Resume a guard that has been stopped, so that it notices the node launcher's end."""
        if self._fd >= 0:
            with suppress(OSError):  # the guard is gone, or now belongs to another user
                system.pidfd_send_signal(self._fd, signal.SIGCONT)

    def keep_alive(self, loop: Loop, seconds: float, job: str = "") -> None:
        """Send signs of life from now on; the guard acts after this many seconds without one.

        Given the id of a job, the guard takes a name by which it can be found from now on
        (`processes.guard_socket`).
        """
        if self._timer is not None:
            self._timer.cancel()
        self._send(f"{seconds!r} {job}".rstrip().encode())
        self._timer = loop.call_later(seconds / SIGNS, lambda: self.keep_alive(loop, seconds))

    def let_stay(self) -> None:
        """Tell the guard to leave alone all processes that run when the node launcher has ended."""
        self._send(STAY)

    def spare(self, pids: Collection[int]) -> None:
        """Tell the guard to leave alone only these children and their descendants."""
        self._send(b" ".join([SPARE, *(b"%d" % pid for pid in sorted(pids))]))

    def _send(self, message: bytes) -> None:
        with suppress(OSError):  # the guard is stopped, or gone
            self._line.send(self._secret + message)


def guarded(launcher: Callable[[Guard], NoReturn], seconds: float = INITIAL_SILENCE) -> NoReturn:
    """Fork this process: call `launcher` in the child, the node launcher, and guard it here.

    This process must have only one thread. The node launcher may be silent for this many seconds,
    until it sets another limit.
    """
    processes.adopt_orphans()
    system.pthread_sigmask(signal.SIG_BLOCK, {*PASSED, signal.SIGCHLD})
    ours, theirs = system.socketpair(socket.SOCK_SEQPACKET | socket.SOCK_NONBLOCK)
    guard, secret = system.getpid(), system.urandom(SECRET)

    def child() -> NoReturn:
        theirs.close()
        # Leave the group that an engine kills as one: one of the two must live to clean up.
        system.setsid()
        processes.adopt_orphans()
        system.pthread_sigmask(signal.SIG_SETMASK, [])
        launcher(Guard(guard, ours, secret))

    pid = system.fork(child)
    ours.close()
    _release_control_line()
    system.exit_now(_Watch(guard, pid, theirs, secret).run(seconds))


class _Watch:
    """The guard's process, from the fork to the node launcher's end."""

    def __init__(self, pid: int, launcher: int, line: socket.socket, secret: bytes) -> None:
        self._pid = pid
        self._launcher = launcher
        self._line = line
        self._secret = secret
        self._killed_by_us = False
        self._may_stay = False
        self._spared: frozenset[int] = frozenset()
        self._status = 0
        self._loop = Loop()
        self._loop.add_reader(line.fileno(), self._receive)
        self._loop.on_signals({*PASSED, signal.SIGCHLD}, self._on_signal)
        system.pthread_sigmask(signal.SIG_SETMASK, [])

    def run(self, seconds: float) -> int:
        """Wait for the end of the node launcher, or cause it; return this process's exit code.

        The node launcher may be silent for this many seconds, until it sets another limit.
        """
        self._count(seconds)
        self._loop.run()
        return self._verdict([] if self._may_stay else descendants.sweep(self._spared))

    def _on_signal(self, number: int) -> None:
        if number != signal.SIGCHLD:
            with suppress(OSError):  # the node launcher is gone, and SIGCHLD is on its way
                self._line.send(bytes([number]))
            return
        ended = processes.reap()
        if self._launcher in ended:
            self._status = ended[self._launcher]
            self._receive()
            self._loop.stop()

    def _receive(self) -> None:
        message = b"."
        with suppress(OSError):  # no more messages for now
            while message:
                message = self._line.recv(MESSAGE)
                if message.startswith(self._secret):
                    self._handle(message[len(self._secret) :])
        if not message:
            self._loop.remove(self._line.fileno())

    def _handle(self, message: bytes) -> None:
        if message == STAY:
            self._may_stay = True
        elif message.startswith(SPARE):
            self._may_stay = False
            self._spared = frozenset(map(int, message.split()[1:]))
        elif message:
            self._timer.cancel()
            seconds, *job = message.split()
            self._count(float(seconds))
            with suppress(OSError):  # the socket has a name already
                for name in job:
                    self._line.bind(f"\0{processes.guard_socket(name.decode(), self._pid)}")

    def _count(self, seconds: float) -> None:
        """Restart the count of missed signs of life."""
        self._every, self._missed = seconds / SIGNS, 0
        self._check()

    def _check(self) -> None:
        """Count checks, not seconds: time in which this process is stopped does not count."""
        if self._missed >= SIGNS:
            # The node launcher may not end before a disk answers, and keeps its children until
            # then.
            self._killed_by_us = processes.send(self._launcher, signal.SIGKILL)
            self._loop.stop()
            return
        self._missed += 1
        self._timer = self._loop.call_later(self._every, self._check)

    def _verdict(self, left: list[int]) -> int:
        code = os.waitstatus_to_exitcode(self._status)
        if self._killed_by_us:
            why = f"showed no sign of life for {self._every * SIGNS:g} s and was killed"
        elif code < 0:
            why = f"was killed by {signal.Signals(-code).name}"
        elif code == LOST and not self._may_stay:
            why = "lost contact with the runner"
        else:
            return code
        named = "".join(f"; could not be stopped: {processes.stuck(pid)}" for pid in left)
        system.write_error(f"the node launcher {why}; {SWEPT}{named}\n")
        return LOST


def _release_control_line() -> None:
    """Close the control line here, so that it ends when the node launcher closes it."""
    for fd in (0, 1):
        try:
            system.dup2(2, fd)
        except OSError:  # there is no standard error
            system.close(fd)
