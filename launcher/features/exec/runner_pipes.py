"""The pipes of a child process on a loop: reading that can pause, writing that never waits."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ...common.loop import Loop

BLOCK = 64 * 1024


class InPipe:
    """Reads a pipe until its end."""

    def __init__(
        self, loop: Loop, fd: int, on_data: Callable[[bytes], None], on_end: Callable[[], None]
    ) -> None:
        self._loop = loop
        self._fd = fd
        self._on_data = on_data
        self._on_end = on_end
        os.set_blocking(fd, False)
        loop.add_reader(fd, self._on_ready)

    @property
    def open(self) -> bool:
        """True until the end of the stream."""
        return self._fd >= 0

    def pause(self, paused: bool) -> None:
        """Stop reading, or continue."""
        if self.open and paused:
            self._loop.remove(self._fd)
        elif self.open:
            self._loop.add_reader(self._fd, self._on_ready)

    def close(self) -> None:
        """Close the pipe."""
        if self.open:
            self._loop.remove(self._fd)
            os.close(self._fd)
            self._fd = -1

    def drain(self) -> None:
        """Read the available data, then close the pipe."""
        while self.open and self._read():
            pass
        self.close()

    def _on_ready(self) -> None:
        self._read()

    def _read(self) -> bool:
        """Read a block; return whether there was one."""
        try:
            data = os.read(self._fd, BLOCK)
        except BlockingIOError:
            return False
        if data:
            self._on_data(data)
            return True
        self.close()
        self._on_end()
        return False


class OutPipe:
    """Writes to a pipe in order; drops the rest when its reader closes it."""

    def __init__(self, loop: Loop, fd: int, on_room: Callable[[], None]) -> None:
        self._loop = loop
        self._fd = fd
        self._on_room = on_room
        self._blocks: list[memoryview] = []
        self._finished = False
        self.backlog = 0
        os.set_blocking(fd, False)

    def send(self, data: bytes) -> None:
        """Write, now or when there is room."""
        if self._fd < 0 or not data:
            return
        self._blocks.append(memoryview(data))
        self.backlog += len(data)
        if len(self._blocks) == 1:
            self._write()

    def finish(self) -> None:
        """Close the pipe once everything is written."""
        self._finished = True
        if not self._blocks:
            self.close()

    def close(self) -> None:
        """Close the pipe, and drop unwritten data."""
        if self._fd >= 0:
            self._loop.remove(self._fd)
            os.close(self._fd)
            self._fd, self.backlog = -1, 0
            self._blocks.clear()

    def _write(self) -> None:
        had_waited = self._loop.has_writer(self._fd)
        while self._blocks:
            try:
                written = os.write(self._fd, self._blocks[0])
            except BlockingIOError:
                self._loop.add_writer(self._fd, self._write)
                break
            except OSError:  # the reader has gone
                self.close()
                break
            self.backlog -= written
            self._blocks[0] = self._blocks[0][written:]
            if not self._blocks[0]:
                self._blocks.pop(0)
        else:
            self._loop.remove_writer(self._fd)
            if self._finished:
                self.close()
        if had_waited:
            self._on_room()
