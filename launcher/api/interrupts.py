"""Ctrl-C while a job is waited for: it must neither cut a message in two nor leave the job alone.

While a job is waited for in the main thread, and Python's own handler would raise
KeyboardInterrupt anywhere, interrupts are counted instead, and end the wait for the socket alone.
"""

from __future__ import annotations

import select
import signal
import threading

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType


class _WaitInterrupted(BaseException):
    """Ends a wait."""


class Interrupts:
    """Counts interrupts within a `with` block."""

    def __init__(self) -> None:
        self.count = 0
        self._waits = self._handles = False

    def __enter__(self) -> Interrupts:
        main = threading.current_thread() is threading.main_thread()
        if main and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            self._handles = True
            signal.signal(signal.SIGINT, self._on_interrupt)
        return self

    def __exit__(self, *_: object) -> None:
        if self._handles:
            signal.signal(signal.SIGINT, signal.default_int_handler)

    def wait(self, fd: int, seconds: float | None, seen: int = 0) -> bool:
        """Wait until a descriptor can be read, or for another interrupt; return whether one came.

        Args:
            fd: the descriptor.
            seconds: the time limit, or None.
            seen: the number of interrupts that the caller has handled.
        """
        poll = select.poll()
        poll.register(fd, select.POLLIN)
        try:
            self._waits = True
            if self.count > seen:
                return True
            return bool(poll.poll(None if seconds is None else seconds * 1000))
        except _WaitInterrupted:
            return True
        finally:
            self._waits = False

    def _on_interrupt(self, _number: int, _frame: FrameType | None) -> None:
        self.count += 1
        if self._waits:
            self._waits = False
            raise _WaitInterrupted
