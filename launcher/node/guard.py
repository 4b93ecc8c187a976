"""The second pair of eyes: a tiny process above the node launcher that outlives it.

The guard is what the backend started; the node launcher is its child and everything the job starts
is below that. Both adopt orphans. When the node launcher dies, however it dies, its descendants
become the guard's children and are killed; when the guard dies, the node launcher sees it and ends
the job. A node launcher that shows no sign of life (stopped, or stuck) is killed by the guard. What
signals the guard gets from a scheduler it tells the node launcher.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import time
from contextlib import suppress

from ..common.errors import LOST, SWEPT
from ..common.loop import Loop
from . import descendants, processes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from ..common.loop import Timer

PASSED = (
    *(signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT),
    *(signal.SIGUSR1, signal.SIGUSR2),
)
"""Signals of which the guard tells the node launcher."""

MESSAGE = 65536
"""Bytes of what the node launcher says at a time, at most."""

SIGNS = 4
"""Signs of life that are due in the time that the node launcher may be silent."""

UNTOLD = 660.0
"""Seconds for which the node launcher may be silent before it has said how long: it leaves by
itself when it has not been told to start for nearly as long."""

STAY, SPARE = b"stay", b"spare"
"""Said to the guard: all that runs on after the node launcher may do so; or these pids alone."""


class Guard:
    """The guard, as the node launcher knows it.

    Attributes:
        pid: the guard's.
    """

    def __init__(self, pid: int, line: socket.socket) -> None:
        """Speak with it over `line`.

        On it come the numbers of signals that the guard has got, a byte each; to it go signs of
        life, each of them the seconds without another one after which the guard acts.
        """
        self.pid = pid
        self._line = line
        self._timer: Timer | None = None

    def watch(self, loop: Loop, heard: Callable[[int], None], died: Callable[[], None]) -> None:
        """Call `heard` with each signal that the guard gets, and `died` at its end."""

        def hear() -> None:
            numbers = self._line.recv(64)
            if not numbers:
                loop.remove(self._line.fileno())
            for number in numbers:
                heard(number)

        def ended() -> None:
            loop.remove(fd)
            loop.remove(self._line.fileno())
            died()

        loop.add_reader(self._line.fileno(), hear)
        try:
            fd = os.pidfd_open(self.pid)
        except OSError:
            died()
            return
        loop.add_reader(fd, ended)

    def keep_alive(self, loop: Loop, seconds: float) -> None:
        """Show signs of life from now on: after so many seconds without any the guard acts."""
        if self._timer is not None:
            self._timer.cancel()
        self._tell(repr(seconds).encode())
        self._timer = loop.call_later(seconds / SIGNS, lambda: self.keep_alive(loop, seconds))

    def let_stay(self) -> None:
        """Tell the guard to leave alone what runs on when the node launcher has ended."""
        self._tell(STAY)

    def spare(self, pids: Collection[int]) -> None:
        """Tell the guard to leave these children alone, with what has come from them, no other."""
        self._tell(b" ".join([SPARE, *(b"%d" % pid for pid in sorted(pids))]))

    def _tell(self, word: bytes) -> None:
        with suppress(OSError):  # it is stopped itself, or gone
            self._line.send(word)


def start_guard(seconds: float = UNTOLD) -> Guard:
    """Split this process in two: return in the child, the node launcher; guard it in the parent.

    Must be called while the process has one thread. From now on the node launcher is missed after
    so many seconds of silence, until it says after how many.
    """
    processes.adopt_orphans()
    signal.pthread_sigmask(signal.SIG_BLOCK, {*PASSED, signal.SIGCHLD})
    ours, theirs = socket.socketpair(type=socket.SOCK_SEQPACKET | socket.SOCK_NONBLOCK)
    guard = os.getpid()
    pid = os.fork()
    if pid == 0:
        theirs.close()
        # Out of the group that an engine kills as one: of the two, one must live to sweep.
        os.setsid()
        processes.adopt_orphans()
        signal.pthread_sigmask(signal.SIG_SETMASK, [])
        return Guard(guard, ours)
    ours.close()
    _let_go_of_the_line()
    os._exit(_Watch(pid, theirs, seconds).run())


class _Watch:
    """The guard's own life: from the fork to the node launcher's end."""

    def __init__(self, launcher: int, line: socket.socket, seconds: float) -> None:
        self._launcher = launcher
        self._line = line
        self._ended_by_us = False
        self._may_stay = False
        self._spared: frozenset[int] = frozenset()
        self._status = 0
        self._loop = Loop()
        self._loop.add_reader(line.fileno(), self._hear)
        self._loop.on_signals({*PASSED, signal.SIGCHLD}, self._on_signal)
        signal.pthread_sigmask(signal.SIG_SETMASK, [])
        self._count(seconds)

    def run(self) -> int:
        """Stay until the node launcher has ended; return the exit code for this process."""
        self._loop.run()
        return self._verdict([] if self._may_stay else _sweep(self._spared))

    def _on_signal(self, number: int) -> None:
        if number != signal.SIGCHLD:
            with suppress(OSError):  # it is gone, and SIGCHLD is on its way
                self._line.send(bytes([number]))
            return
        ended = processes.reap()
        if self._launcher in ended:
            self._status = ended[self._launcher]
            self._hear()
            self._loop.stop()

    def _hear(self) -> None:
        """Read all that the node launcher has said."""
        word = b"."
        with suppress(OSError):  # nothing more for now
            while word:
                word = self._line.recv(MESSAGE)
                self._take(word)
        if not word:
            self._loop.remove(self._line.fileno())

    def _take(self, word: bytes) -> None:
        if word == STAY:
            self._may_stay = True
        elif word.startswith(SPARE):
            self._may_stay = False
            self._spared = frozenset(map(int, word.split()[1:]))
        elif word:
            self._timer.cancel()
            self._count(float(word))

    def _count(self, seconds: float) -> None:
        """Count the looks at a silent node launcher anew."""
        self._every, self._missed = seconds / SIGNS, 0
        self._look()

    def _look(self) -> None:
        """Count looks, not seconds: while this process is stopped as well, nobody is to blame."""
        if self._missed >= SIGNS:
            self._ended_by_us = processes.send(self._launcher, signal.SIGKILL)
            return
        self._missed += 1
        self._timer = self._loop.call_later(self._every, self._look)

    def _verdict(self, left: list[int]) -> int:
        code = os.waitstatus_to_exitcode(self._status)
        if code >= 0:
            return code
        why = f"was killed by {signal.Signals(-code).name}"
        if self._ended_by_us:
            why = f"showed no sign of life for {self._every * SIGNS:g} s, and was killed"
        named = "".join(f"; could not be ended: {processes.stuck(pid)}" for pid in left)
        sys.stderr.write(f"the node launcher {why}; {SWEPT}{named}\n")
        sys.stderr.flush()
        return LOST


def _let_go_of_the_line() -> None:
    """Leave the control line to the node launcher alone, so that its end is seen at once."""
    null = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1):
        os.dup2(null, fd)
    os.close(null)


def _sweep(spared: Collection[int]) -> list[int]:
    """End all that is left below this process, but for children that are spared.

    Returns:
        those that have not ended after SIGKILL.
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
    last = time.monotonic() + descendants.GIVE_UP
    known: set[int] = set()
    processes.reap()
    while left := [pid for pid in processes.children() if pid not in spared]:
        if not known.issuperset(left):
            known = descendants.end(spared).union(left)
        ours = [pid for pid in left if processes.send(pid, signal.SIGKILL)]
        patience = max(0.0, last - time.monotonic())
        if not ours or signal.sigtimedwait({signal.SIGCHLD}, patience) is None:
            break
        known -= processes.reap().keys()
    return left
