"""Copies this process's terminal into a pipe from which another process reads it."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...common.loop import Loop

BLOCK = 64 * 1024


class InputPipe:
    """Copies until the end of the input, or until nobody reads it.

    Attributes:
        read_fd: the end of the pipe for the other process.
    """

    def __init__(self, loop: Loop, source: int = 0) -> None:
        self._loop = loop
        self._source = source
        self._data = b""
        self.read_fd, self._write_fd = os.pipe()
        os.set_blocking(self._write_fd, False)
        loop.add_reader(source, self._read)

    def _read(self) -> None:
        try:
            self._data = os.read(self._source, BLOCK)
        except OSError:
            self._data = b""  # the terminal is gone
        self._loop.remove(self._source)
        if self._data:
            self._loop.add_writer(self._write_fd, self._write)
        else:
            self._close()

    def _write(self) -> None:
        try:
            self._data = self._data[os.write(self._write_fd, self._data) :]
        except BlockingIOError:
            return
        except BrokenPipeError:
            self._close()
            return
        if not self._data:
            self._loop.remove(self._write_fd)
            self._loop.add_reader(self._source, self._read)

    def _close(self) -> None:
        self._loop.remove(self._write_fd)
        os.close(self._write_fd)
