"""Writes to a standard stream in a thread: a stalled reader does not block the loop."""

from __future__ import annotations

from collections import deque

from ...common import system
from ...common.poll import WRITE, ready

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    Written = Callable[[], None]

AT_ONCE = 512 * 1024
"""Bytes in one write(2)."""


class Writer:
    """Writes blocks to one descriptor in order.

    `written` is called for each block once it is written, and `failed` once with the errno; after a
    failure, blocks are dropped. Both are called from the thread.
    """

    def __init__(self, fd: int, failed: Callable[[int], None], *, owned: bool = False) -> None:
        """Write to `fd`; if it is `owned`, close it once everything is written after `close`."""
        self._fd = fd
        self._owned = owned
        self._failed = failed
        self._blocks: deque[tuple[bytes, Written | None]] = deque()
        self._ready = system.condition()
        self._closed = self._broken = False
        self._thread = system.thread(self._run, f"write-{fd}")

    def put(self, data: bytes, written: Written | None = None) -> None:
        """Queue a block, without waiting."""
        with self._ready:
            self._blocks.append((data, written))
            self._ready.notify()

    def close(self, seconds: float) -> bool:
        """End the thread once all is written; return whether it ended within `seconds`."""
        with self._ready:
            self._closed = True
            self._ready.notify()
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def _run(self) -> None:
        while blocks := self._take():
            self._write(b"".join(data for data, _ in blocks))
            for _, written in blocks:
                if written is not None:
                    written()
        if self._owned:
            system.close(self._fd)

    def _take(self) -> list[tuple[bytes, Written | None]]:
        """Return the next blocks, up to about `AT_ONCE` bytes; [] at the end."""
        with self._ready:
            while not self._blocks and not self._closed:
                self._ready.wait()
            blocks = []
            size = 0
            while self._blocks and size < AT_ONCE:
                blocks.append(self._blocks.popleft())
                size += len(blocks[-1][0])
            return blocks

    def _write(self, data: bytes) -> None:
        view = memoryview(data)
        while view and not self._broken:
            try:
                view = view[system.write(self._fd, view) :]
            except BlockingIOError:
                # Another process has made this descriptor non-blocking; wait until it is writable.
                ready([self._fd], None, WRITE)
            except OSError as error:
                self._broken = True
                self._failed(error.errno or 0)
