"""Bounds the time of a search with a regular expression, which can take exponential time.

Nothing else can interrupt such a search: `re` looks for signals while it searches. The timer counts
processor time of this process, so a busy machine does not make a search too slow.
"""

from __future__ import annotations

import signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeVar

    Found = TypeVar("Found")


class TooSlow(Exception):
    """A search has taken too long."""


class TimeLimit:
    """Calls functions, in the main thread, with a limit of the time that each may take."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._armed = False

    def call(self, function: Callable[[], Found]) -> Found:
        """Return the result of a function.

        Raises:
            TooSlow: the function has taken too long, and was interrupted.
        """
        before = signal.signal(signal.SIGVTALRM, self._on_time)
        self._armed = True
        signal.setitimer(signal.ITIMER_VIRTUAL, self.seconds)
        try:
            return function()
        finally:
            self._armed = False
            signal.setitimer(signal.ITIMER_VIRTUAL, 0.0)
            signal.signal(signal.SIGVTALRM, before)

    def _on_time(self, _number: int, _frame: object) -> None:
        if self._armed:
            raise TooSlow
