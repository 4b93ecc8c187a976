"""Waits in an event loop until something has arrived."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    import asyncio


class Readable:
    """Waits for one descriptor; any number of coroutines of one event loop may do so at a time."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._waiting: list[asyncio.Future[None]] = []

    async def wait(self) -> None:
        """Return once the descriptor can be read, or its other end is closed."""
        import asyncio

        loop = asyncio.get_running_loop()
        ready: asyncio.Future[None] = loop.create_future()
        if not self._waiting:
            loop.add_reader(self._fd, self._wake, loop)
        self._waiting.append(ready)
        try:
            await ready
        finally:
            if ready in self._waiting:  # cancelled
                self._waiting.remove(ready)
                if not self._waiting:
                    loop.remove_reader(self._fd)

    def _wake(self, loop: asyncio.AbstractEventLoop) -> None:
        loop.remove_reader(self._fd)
        waiting, self._waiting = self._waiting, []
        for one in waiting:
            if not one.done():
                one.set_result(None)
