"""A function that may block for good, such as a question to a driver, called in a forked child."""

from __future__ import annotations

import json
import os
import signal
from contextlib import suppress

from ..common import system
from . import processes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import NoReturn

    from ..common.loop import Loop


def call_apart(function: Callable[[], object]) -> tuple[int, int]:
    """Call a function in a child; return the child's pid, and a pipe with the result as JSON.

    The pipe ends without a whole result if the function raises, or the child is killed. It does
    not outlive this process.

    Raises:
        OSError: there is no room for another process, or no descriptor left.
    """
    ours, theirs = system.pipe2(os.O_CLOEXEC)
    parent = system.getpid()
    try:
        pid = system.fork(lambda: _answer(function, theirs, parent))
    except OSError:
        system.close(ours)
        system.close(theirs)
        raise
    system.close(theirs)
    return pid, ours


def _answer(function: Callable[[], object], fd: int, parent: int) -> NoReturn:
    """Write the result, and end; never returns."""
    try:
        system.set_wakeup_fd(-1)  # the pipe is the parent's as well
        processes.die_with_parent(signal.SIGKILL)
        # If this process hangs, the runner must still see when the node launcher has ended.
        for other in {*map(int, system.listdir("/proc/self/fd"))} - {fd}:
            with suppress(OSError):  # the one that has listed them
                system.close(other)
        if system.getppid() == parent:
            with system.open_file(fd, "w", encoding="utf-8") as pipe:
                json.dump(function(), pipe)
    finally:
        system.exit_now(0)


class Apart:
    """Such a call on a loop.

    Attributes:
        pid: the child, 0 once it is reaped.
    """

    def __init__(
        self,
        loop: Loop,
        function: Callable[[], object],
        seconds: float,
        answered: Callable[[bytes], None],
    ) -> None:
        """Call the function; `answered` gets its result as JSON, or b"" after so many seconds.

        Raises:
            OSError: as `call_apart`.
        """
        self._loop = loop
        self._answered: Callable[[bytes], None] | None = answered
        self.pid, self._fd = call_apart(function)
        system.set_blocking(self._fd, False)
        self._data = bytearray()
        loop.add_reader(self._fd, self._read)
        self._timer = loop.call_later(seconds, self._end)

    @property
    def asking(self) -> bool:
        """Whether an answer can still come."""
        return self._fd >= 0

    def reaped(self, pid: int) -> None:
        """Note that a child of this process was reaped."""
        if pid == self.pid:
            self.pid = 0

    def close(self) -> None:
        """Kill the child, and give no answer any more."""
        self._answered = None
        self._end()

    def _read(self) -> None:
        block = system.read(self._fd, 65536)
        self._data += block
        if not block:
            self._end(bytes(self._data))

    def _end(self, data: bytes = b"") -> None:
        if self._fd < 0:
            return
        self._timer.cancel()
        self._loop.remove(self._fd)
        system.close(self._fd)
        self._fd = -1
        if self.pid:
            processes.send(self.pid, signal.SIGKILL)
        answered, self._answered = self._answered, None
        if answered is not None:
            answered(data)
