"""A program that a backend runs on this machine: its streams and its exit."""

from __future__ import annotations

import os
import signal
from contextlib import suppress

from ..common import executable
from ..common import loop as loops
from ..common.poll import ready
from ..common.records import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

KEPT = 16 * 1024
"""Bytes of standard error kept to explain a failure."""

DEFAULTED = [
    *(signal.SIGPIPE, signal.SIGHUP, signal.SIGINT, signal.SIGTERM, signal.SIGQUIT),
    *(signal.SIGCHLD, signal.SIGUSR1, signal.SIGUSR2, signal.SIGTSTP),
]
"""Signals that are reset to their defaults, even if dsrun itself was started with some ignored."""

STDERR_TIMEOUT = 0.3
"""Seconds to wait for the rest of standard error after the program has ended."""


class StartedChild(NamedTuple):
    """A started process, and our ends of the pipes that are its standard streams."""

    pid: int
    stdin: int
    stdout: int
    stderr: int


def spawn(argv: Sequence[str], environ: Mapping[str, str]) -> StartedChild:
    """Start a program in a new session, with the signals of a fresh login.

    Raises:
        OSError: the program could not be started.
    """
    return with_pipes(lambda streams: execute(argv, environ, streams))


def execute(argv: Sequence[str], environ: Mapping[str, str], streams: Sequence[int]) -> int:
    """Start a program as `spawn` does, with these standard streams; return its pid.

    Raises:
        OSError: the program could not be started.
    """
    return os.posix_spawn(
        executable.located(argv[0]),
        list(argv),
        environ,
        file_actions=[(os.POSIX_SPAWN_DUP2, fd, at) for at, fd in enumerate(streams)],
        setsid=True,
        setsigmask=[],
        setsigdef=DEFAULTED,
    )


def with_pipes(start: Callable[[Sequence[int]], int]) -> StartedChild:
    """Make three pipes, and call `start` with the child's ends; `start` returns the child's pid."""
    (in_read, in_write), (out_read, out_write), (err_read, err_write) = (
        os.pipe2(os.O_CLOEXEC) for _ in range(3)
    )
    theirs = (in_read, out_write, err_write)
    try:
        return StartedChild(start(theirs), in_write, out_read, err_read)
    except OSError:
        for fd in (in_write, out_read, err_read):
            os.close(fd)
        raise
    finally:
        for fd in theirs:
            os.close(fd)


class Child:
    """A started process: its streams and its exit.

    Attributes:
        stdin, stdout: our ends of the pipes; the owner closes them.
        code: the exit code once the process has ended; a negative code is the number of a signal.
    """

    def __init__(
        self,
        started: StartedChild,
        loop: loops.Loop,
        on_end: Callable[[int, str], None],
        on_errors: Callable[[bytes], None] | None = None,
    ) -> None:
        """Watch a process.

        Args:
            started: the process.
            loop: reads the standard error, and waits for the end.
            on_end: called with the exit code (negative: the number of a signal), and the end of the
                standard error.
            on_errors: called with the standard error as it arrives.
        """
        self.pid, self.stdin, self.stdout, self._stderr = started
        self.code: int | None = None
        self._errors = b""
        self._loop = loop
        self._on_end = on_end
        self._on_errors = on_errors
        self._pidfd = os.pidfd_open(self.pid)
        os.set_blocking(self._stderr, False)
        loop.add_reader(self._stderr, self._read_errors)
        loop.add_reader(self._pidfd, self._ended)

    def send_signal(self, number: int) -> None:
        """Send a signal, unless the process has ended."""
        if self.code is None:
            signal.pidfd_send_signal(self._pidfd, number)

    def wait(self, seconds: float) -> bool:
        """Wait up to `seconds` for the process to end, outside the loop; return whether it has.

        If the loop runs again, it reads the remaining standard error and reports the end.
        """
        if self.code is None and ready([self._pidfd], seconds):
            self._ended()
        return self.code is not None

    def open_children(self) -> list[int]:
        """Return descriptors of the child processes, which may outlive this one (pidfd_open(2))."""
        return [*open_children(self.pid).values()] if self.code is None else []

    def _read_errors(self) -> None:
        try:
            data = os.read(self._stderr, KEPT)
        except BlockingIOError:
            return
        self._errors = (self._errors + data)[-KEPT:]
        if self._on_errors is not None and data:
            self._on_errors(data)
        if not data:
            self._close_errors()
            self._report_end()

    def _close_errors(self) -> None:
        if self._stderr >= 0:
            self._loop.remove(self._stderr)
            os.close(self._stderr)
            self._stderr = -1

    def _ended(self) -> None:
        self._loop.remove(self._pidfd)
        _, status = os.waitpid(self.pid, 0)
        self.code = os.waitstatus_to_exitcode(status)
        self._loop.call_later(STDERR_TIMEOUT, self._stop_reading)
        self._report_end()

    def _stop_reading(self) -> None:
        if self._stderr >= 0:
            self._close_errors()
            self._report_end()

    def _report_end(self) -> None:
        """Call `on_end` once the program has ended and its standard error has been read."""
        if self.code is not None and self._stderr < 0 and self._pidfd >= 0:
            os.close(self._pidfd)
            self._pidfd = -1
            self._on_end(self.code, self._errors.decode("utf-8", "replace"))


def open_children(pid: int) -> dict[int, int]:
    """Return descriptors of the children of a process, by pid (pidfd_open(2))."""
    pidfds: dict[int, int] = {}
    for child in [*_children(pid)]:
        with suppress(OSError):
            pidfds[child] = os.pidfd_open(child)
    # Look again now that the pidfds are open: the pids can no longer be reused.
    for child in pidfds.keys() - {*_children(pid)}:
        os.close(pidfds.pop(child))
    return pidfds


def signal_all(pidfds: Sequence[int], number: int) -> None:
    """Send a signal to the processes of these descriptors that are still alive; close all."""
    for pidfd in pidfds:
        with suppress(OSError):
            signal.pidfd_send_signal(pidfd, number)
        os.close(pidfd)


def _children(pid: int) -> Iterator[int]:
    """Yield the children of all threads of a process (proc(5))."""
    with suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{thread}/children", encoding="ascii") as file:
                yield from map(int, file.read().split())
