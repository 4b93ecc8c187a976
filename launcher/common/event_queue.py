"""A queue of events: each is handled once those before it are done, with all that follows of them.

So whoever handles an event is never called again from within.
"""

from __future__ import annotations

from collections import deque

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


class EventQueue:
    """Events that wait, with whoever handles each."""

    def __init__(self) -> None:
        """Begin without events."""
        self._waiting: deque[tuple[Callable[[Any], object], Any]] = deque()
        self._busy = False

    def put(self, handle: Callable[[Any], object], event: object) -> None:
        """Have `handle` called with an event: now, or after those that are under way.

        What it raises ends the call that was not made from within; the events behind it wait for
        the next one.
        """
        self._waiting.append((handle, event))
        if self._busy:
            return
        self._busy = True
        try:
            while self._waiting:
                handle, event = self._waiting.popleft()
                handle(event)
        finally:
            self._busy = False
