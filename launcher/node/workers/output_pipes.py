"""One output pipe of a worker: read in blocks, logged, and its end kept for the report."""

from __future__ import annotations

from ...common import system

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

BLOCK = 64 * 1024
TAIL = 16 * 1024
"""Bytes of each stream kept for the report of a failure."""


class OutputPipe:
    """Reads one stream of one worker.

    Attributes:
        count: the number of bytes read.
    """

    def __init__(self, fd: int, log: Callable[[bytes], None] | None = None) -> None:
        """Read a descriptor, and append its data to the log."""
        self.fd = fd
        self.tail = b""
        self.count = 0
        self._log = log

    def read(self) -> bytes | None:
        """Return new data; b"" at the end of the stream, None if no data is ready."""
        try:
            data = system.read(self.fd, BLOCK)
        except BlockingIOError:
            return None
        if self._log is not None:
            self._log(data)
        self.tail = (self.tail + data)[-TAIL:]
        self.count += len(data)
        return data

    def finish(self) -> None:
        """Read the rest of the pipe into log and tail, and close the pipe."""
        while self.fd >= 0 and self.read():
            pass
        self.close()

    def close(self) -> None:
        """Close the pipe; may be called twice."""
        if self.fd >= 0:
            system.close(self.fd)
            self.fd = -1
