"""Sends input to all hosts that read input, at the pace of the slowest."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ...common.loop import Loop
    from .runner_events import Transport

WINDOW = 4 << 20
"""Bytes that may be on their way to a host."""

BLOCK = 1 << 18


class InputBroadcast:
    """One source of input.

    Args:
        loop: waits for the source.
        transport: sends the input.
        read: returns the next bytes without waiting long, b"" at the end.
        fd: the descriptor that must be readable before `read` is called; -1 for none.
    """

    def __init__(
        self, loop: Loop, transport: Transport, read: Callable[[], bytes], fd: int = -1
    ) -> None:
        self._loop = loop
        self._transport = transport
        self._read = read
        self._fd = fd
        self._over = False

    def pump(self) -> None:
        """Send as much as there is room for; called again when there is more room."""
        if self._fd >= 0:
            self._wait()
            return
        while not self._over and self._transport.backlog() < WINDOW:
            self._send()

    def close(self) -> None:
        """Stop sending."""
        self._over = True
        if self._fd >= 0:
            self._loop.remove(self._fd)

    def _wait(self) -> None:
        ready = not self._over and self._transport.backlog() < WINDOW
        if ready and not self._loop.has_reader(self._fd):
            self._loop.add_reader(self._fd, self._take)
        elif not ready:
            self._loop.remove(self._fd)

    def _take(self) -> None:
        self._send()
        self._wait()

    def _send(self) -> None:
        data = self._read()
        self._over = not data
        self._transport.send(data)


def from_descriptor(loop: Loop, transport: Transport, fd: int) -> InputBroadcast:
    """Return the broadcast of a descriptor: of a file, a pipe or a terminal."""

    def read() -> bytes:
        try:
            return os.read(fd, BLOCK)
        except OSError:  # such as EIO of a terminal that has gone
            return b""

    try:
        loop.add_reader(fd, _nothing)
    except PermissionError:  # a regular file is always ready, and epoll(7) refuses it
        return InputBroadcast(loop, transport, read)
    loop.remove(fd)
    return InputBroadcast(loop, transport, read, fd)


def from_blocks(loop: Loop, transport: Transport, blocks: Iterator[bytes]) -> InputBroadcast:
    """Return the broadcast of blocks that are made during sending; empty blocks are skipped."""
    full = filter(None, blocks)
    return InputBroadcast(loop, transport, lambda: next(full, b""))


def _nothing() -> None:
    """Do nothing."""
