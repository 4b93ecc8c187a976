"""A program that a backend runs on this machine: its streams, its end, and no way to hang on it."""

from __future__ import annotations

import os
import select
import signal
from contextlib import suppress

from ..common import loop as loops

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

KEPT = 16 * 1024
"""Bytes of standard error kept to explain a failure."""

DEFAULTED = [
    *(signal.SIGPIPE, signal.SIGHUP, signal.SIGINT, signal.SIGTERM, signal.SIGQUIT),
    *(signal.SIGCHLD, signal.SIGUSR1, signal.SIGUSR2, signal.SIGTSTP),
]
"""Signals that a program finds as after a login, whatever was ignored where dsrun was started."""

LAST_WORDS = 0.3
"""Seconds to wait for the rest of standard error after the program has ended."""


class Child:
    """One program in a session of its own, with pipes for all three streams.

    Attributes:
        stdin, stdout: our ends of its pipes; the owner closes them.
        errors: the end of what it wrote to standard error.
        code: its exit code once it has ended, or minus the number of a signal.
    """

    def __init__(
        self,
        argv: Sequence[str],
        loop: loops.Loop,
        on_end: Callable[[int, str], None],
        environ: Mapping[str, str],
        on_errors: Callable[[bytes], None] | None = None,
    ) -> None:
        """Start it; `on_end` is given its exit code (minus the number of a signal) and `errors`.

        `on_errors` is given standard error as it comes.

        Raises:
            OSError: it could not be started.
        """
        (in_read, self.stdin), (self.stdout, out_write), (self._stderr, err_write) = (
            os.pipe2(os.O_CLOEXEC) for _ in range(3)
        )
        theirs = (in_read, out_write, err_write)
        try:
            self.pid = os.posix_spawnp(
                argv[0],
                list(argv),
                environ,
                file_actions=[(os.POSIX_SPAWN_DUP2, fd, at) for at, fd in enumerate(theirs)],
                setsid=True,
                setsigmask=[],
                setsigdef=DEFAULTED,
            )
        finally:
            for fd in theirs:
                os.close(fd)
        self.errors = b""
        self._loop = loop
        self._on_end = on_end
        self._on_errors = on_errors
        self.code: int | None = None
        self._pidfd = os.pidfd_open(self.pid)
        os.set_blocking(self._stderr, False)
        loop.watch(self._stderr, loops.READ, self._read_errors)
        loop.watch(self._pidfd, loops.READ, self._ended)

    def send_signal(self, number: int) -> None:
        """Signal it, unless it has ended."""
        if self.code is None:
            signal.pidfd_send_signal(self._pidfd, number)

    def wait(self, seconds: float) -> bool:
        """Wait so long for its end, outside the loop; tells whether it has come."""
        if self.code is not None:
            return True
        waiting = select.poll()
        waiting.register(self._pidfd, select.POLLIN)
        if not waiting.poll(seconds * 1000):
            return False
        self._reap()
        return True

    def signal_children(self, number: int) -> None:
        """Signal the programs that it has started itself, which may be in sessions of their own."""
        for pid in _children(self.pid) if self.code is None else []:
            with suppress(OSError):
                pidfd = os.pidfd_open(pid)
                # Asked again behind the descriptor: the number cannot change hands any more.
                if pid in _children(self.pid):
                    signal.pidfd_send_signal(pidfd, number)
                os.close(pidfd)

    def _read_errors(self) -> None:
        try:
            data = os.read(self._stderr, KEPT)
        except BlockingIOError:
            return
        self.errors = (self.errors + data)[-KEPT:]
        if self._on_errors is not None and data:
            self._on_errors(data)
        if not data:
            self._close_errors()
            self._tell()

    def _close_errors(self) -> None:
        if self._stderr >= 0:
            self._loop.unwatch(self._stderr)
            os.close(self._stderr)
            self._stderr = -1

    def _ended(self) -> None:
        self._loop.unwatch(self._pidfd)
        self._reap()
        self._loop.after(LAST_WORDS, self._hurry)
        self._tell()

    def _reap(self) -> None:
        _, status = os.waitpid(self.pid, 0)
        self.code = os.waitstatus_to_exitcode(status)

    def _hurry(self) -> None:
        if self._stderr >= 0:
            self._close_errors()
            self._tell()

    def _tell(self) -> None:
        """Tell the owner once: the program has ended and its last words are in."""
        if self.code is not None and self._stderr < 0 and self._pidfd >= 0:
            os.close(self._pidfd)
            self._pidfd = -1
            self._on_end(self.code, self.errors.decode("utf-8", "replace"))


def _children(pid: int) -> list[int]:
    """Return the children of a process, whichever of its threads has started them (proc(5))."""
    found: list[int] = []
    with suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{thread}/children", encoding="ascii") as file:
                found += map(int, file.read().split())
    return found
