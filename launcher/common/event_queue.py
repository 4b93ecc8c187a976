"""A queue of events: each is handled once those before it are done, with all that follows of them.

So whoever handles an event is never called again from within. And what many events, one of each
node, have to be asked after each of them: whether anything is left.
"""

from __future__ import annotations

from collections import deque

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any, TypeVar

    One = TypeVar("One")


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


class Remaining:
    """Whether something remains of many things, each of which is done at some time.

    It is asked after each of them, so it looks at one that is not done as long as it is not, and
    at all things only once none is left of those it knew of.
    """

    def __init__(self, things: Callable[[], Sequence[One]], done: Callable[[One], object]) -> None:
        """Look at these things as they are then; `done` returns whether one is done."""
        self._things: Callable[[], Sequence[Any]] = things
        self._done: Callable[[Any], object] = done
        self._known: list[Any] = []

    def __bool__(self) -> bool:
        """Return whether there is any that is not done."""
        known, done = self._known, self._done
        while known and done(known[-1]):
            known.pop()
        if not known:
            known += [one for one in self._things() if not done(one)]
        return bool(known)
