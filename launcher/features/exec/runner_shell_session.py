"""A command in a child process of this machine: an `ssh` client, or a shell."""

from __future__ import annotations

import os
import signal

from ...backends.child import STDERR_TIMEOUT, StartedChild, spawn
from .runner_pipes import InPipe, OutPipe
from .runner_remote_shell import script

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ...common.loop import Loop
    from .runner_events import HostCommand


class ShellSession:
    """One started process, its streams, and its exit.

    Attributes:
        tail: the last bytes that the command, or `ssh`, has written to standard error.
    """

    def __init__(
        self,
        loop: Loop,
        argv: Sequence[str],
        on_data: Callable[[int, bytes], None],
        on_end: Callable[[int], None],
        on_room: Callable[[], None],
    ) -> None:
        """Start the process.

        Args:
            loop: reads and writes its streams.
            argv: the process; it runs `runner_remote_shell.BOOT`.
            on_data: called with each output of the command: the stream (1, 2), and the bytes.
            on_end: called once, with the exit code (negative: the number of a signal).
            on_room: called when the command begins, and when the process has taken input.

        Raises:
            OSError: the process cannot be started.
        """
        self._loop = loop
        self._on_data = on_data
        self._on_end = on_end
        self._on_room = on_room
        self._mark = f"dsrun-{os.urandom(8).hex()}"
        self._filters = {1: LoginNoiseFilter(self._mark), 2: LoginNoiseFilter(self._mark)}
        self._code: int | None = None
        self.tail = b""
        started = spawn(argv, os.environ)
        self._pid, self._pidfd = started.pid, _pidfd(started)
        self._input = OutPipe(loop, started.stdin, on_room)
        self._outputs = [
            InPipe(loop, fd, lambda data, stream=stream: self._read(stream, data), self._report)  # type: ignore[misc]
            for stream, fd in ((1, started.stdout), (2, started.stderr))
        ]
        loop.add_reader(self._pidfd, self._ended)

    @property
    def began(self) -> bool:
        """True if the command has been reached."""
        return any(stream.found for stream in self._filters.values())

    @property
    def noise(self) -> str:
        """The output before the command began."""
        both = (self._filters[2].noise, self._filters[1].noise)
        return "\n".join(text.decode("utf-8", "replace") for text in both)

    @property
    def backlog(self) -> int:
        """Bytes of input that the process has not read."""
        return self._input.backlog

    def start(self, command: HostCommand, *, reads: bool) -> None:
        """Send the command; with `reads`, input follows."""
        self._input.send(script(command, self._mark, reads=reads))

    def send(self, pieces: Sequence[bytes]) -> None:
        """Send input, as `runner_remote_shell.pieces` returns it."""
        for piece in pieces:
            self._input.send(piece)

    def pause(self, paused: bool) -> None:
        """Stop reading the output, or continue."""
        for output in self._outputs:
            output.pause(paused)

    def close_input(self) -> None:
        """End the session's input: the shell ends the command."""
        self._input.close()

    def kill(self) -> None:
        """End the process itself."""
        if self._code is None:
            signal.pidfd_send_signal(self._pidfd, signal.SIGTERM)

    def _read(self, stream: int, data: bytes) -> None:
        began = self.began
        data = self._filters[stream].feed(data)
        if stream == 2:
            self.tail = (self.tail + data)[-1024:]
        if data:
            self._on_data(stream, data)
        if self.began and not began:
            self._on_room()

    def _ended(self) -> None:
        self._loop.remove(self._pidfd)
        _, status = os.waitpid(self._pid, 0)
        self._code = os.waitstatus_to_exitcode(status)
        self._input.close()
        # A process that the command leaves behind may keep the pipes open.
        self._loop.call_later(STDERR_TIMEOUT, self._stop_reading)
        self._report()

    def _stop_reading(self) -> None:
        for output in self._outputs:
            output.drain()
        self._report()

    def _report(self) -> None:
        if self._code is None or self._pidfd < 0 or any(one.open for one in self._outputs):
            return
        os.close(self._pidfd)
        self._pidfd = -1
        self._on_end(self._code)


def _pidfd(started: StartedChild) -> int:
    """Return a pidfd of a process.

    Raises:
        OSError: there is no pidfd; the process has been ended.
    """
    try:
        return os.pidfd_open(started.pid)
    except OSError:
        for fd in started[1:]:
            os.close(fd)
        os.kill(started.pid, signal.SIGKILL)  # our child, which nobody has reaped
        os.waitpid(started.pid, 0)
        raise


NOISE = 64 * 1024
"""Bytes kept of the output before the mark."""


class LoginNoiseFilter:
    """One stream of a session.

    Attributes:
        noise: the bytes before the mark, at most `NOISE`.
        found: whether the mark has arrived.
    """

    def __init__(self, mark: str) -> None:
        self._line = f"{mark}\n".encode()
        self.noise = b""
        self.found = False

    def feed(self, data: bytes) -> bytes:
        """Return the part of these bytes that belongs to the command."""
        if self.found:
            return data
        before, mark, behind = (self.noise + data).partition(self._line)
        self.found = bool(mark)
        self.noise = before[-NOISE:]
        return behind
