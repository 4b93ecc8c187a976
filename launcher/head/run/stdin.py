"""Forwards a standard input to rank 0, no faster than rank 0 reads it."""

from __future__ import annotations

from ...common import loop as loops
from ...common import system
from ...control import frames

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

WINDOW = 256 * 1024
BLOCK = 64 * 1024


class Stdin:
    """Reads standard input while rank 0 has less than a window of unread bytes."""

    def __init__(self, loop: loops.Loop, send: Callable[[bytes], None], fd: int = 0) -> None:
        """Start reading `fd`; `send` gets each frame for rank 0."""
        self._fd = fd
        self._loop = loop
        self._send = send
        self._unread = 0
        self._ended = False
        self._resume()

    def took(self, size: int) -> None:
        """Count input that rank 0 has read.

        Raises:
            BadFrame: rank 0 claims more than was sent.
        """
        if size > self._unread:
            raise frames.BadFrame(f"{size} bytes of input read, but only {self._unread} sent")
        stalled = self._unread >= WINDOW
        self._unread -= size
        if stalled and self._unread < WINDOW:
            self._resume()

    def close(self) -> None:
        """Stop reading."""
        if not self._ended:
            self._ended = True
            self._loop.remove(self._fd)

    def _resume(self) -> None:
        if self._ended:
            return
        try:
            self._loop.add_reader(self._fd, self._read)
        except PermissionError:
            # A regular file is always ready, and epoll(7) refuses to wait for it.
            self._loop.call_later(0.0, self._read_file)

    def _read_file(self) -> None:
        if self._ended:
            return
        self._read()
        if self._unread < WINDOW:
            self._resume()

    def _read(self) -> None:
        try:
            data = system.read(self._fd, BLOCK)
        except BlockingIOError:
            return
        except OSError:
            data = b""  # a terminal that is gone, or that this process may not read
        self._send(frames.pack(frames.INPUT, data))
        self._unread += len(data)
        self._ended = not data
        if self._ended or self._unread >= WINDOW:
            self._loop.remove(self._fd)
