"""A queue of calls: each is made once those before it are done, with all that follows of them.

So whoever handles an event is never called again from within. And, for many events, one of each
node: whether anything is left.
"""

from __future__ import annotations

from collections import deque
from functools import partial

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any, ParamSpec, TypeVar

    One = TypeVar("One")
    P = ParamSpec("P")


class EventQueue:
    """Calls that wait for each other."""

    def __init__(self) -> None:
        """Begin without calls."""
        self._waiting: deque[Callable[[], object]] = deque()
        self._busy = False

    def put(self, call: Callable[P, object], *args: P.args, **kwargs: P.kwargs) -> None:
        """Make this call: now, or after those that are under way.

        An exception of it ends the call that was not made from within; those behind it wait for
        the next one.
        """
        self._waiting.append(partial(call, *args, **kwargs))
        if self._busy:
            return
        self._busy = True
        try:
            while self._waiting:
                self._waiting.popleft()()
        finally:
            self._busy = False

    def later(self, call: Callable[P, object]) -> Callable[P, None]:
        """Return a function that puts this call in the queue."""
        return lambda *args, **kwargs: self.put(call, *args, **kwargs)


class Outbox:
    """Calls that a step asks for, made in order once it is over.

    What a decision asks for comes before what was asked for after it. All actions come after the
    last decision, so those who see one see the state that all of them have led to.
    """

    def __init__(self) -> None:
        """Begin without calls."""
        self._calls: deque[tuple[bool, Callable[[], object]]] = deque()
        self._actions: deque[Callable[[], object]] = deque()

    def decide(self, call: Callable[P, object], *args: P.args, **kwargs: P.kwargs) -> None:
        """Ask for a call that changes the state."""
        self._calls.append((True, partial(call, *args, **kwargs)))

    def do(self, call: Callable[P, object], *args: P.args, **kwargs: P.kwargs) -> None:
        """Ask for an action outside of it."""
        self._calls.append((False, partial(call, *args, **kwargs)))

    def empty(self) -> None:
        """Make the calls; after an exception the rest wait for the next time."""
        while self._calls:
            decides, call = self._calls.popleft()
            if not decides:
                self._actions.append(call)
                continue
            rest = [*self._calls]
            self._calls.clear()
            try:
                call()
            finally:
                self._calls.extend(rest)
        while self._actions:
            self._actions.popleft()()


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
