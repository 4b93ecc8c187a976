"""A queue of calls. Each call is made once the calls before it, and their consequences, are done.

A handler of an event is therefore never called again while it runs. The module also counts down the
events of many nodes (`Remaining`).
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
    """A queue of calls that wait for each other."""

    def __init__(self) -> None:
        self._waiting: deque[Callable[[], object]] = deque()
        self._busy = False

    def put(self, call: Callable[P, object], *args: P.args, **kwargs: P.kwargs) -> None:
        """Make this call, now or after the calls that are in progress.

        An exception in any call ends the outermost `put`; the calls still in the queue wait for the
        next `put`.
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
    """Calls requested during a step, and made in order at its end.

    A call requested by a decision comes before the calls requested after that decision. All actions
    come after the last decision, and see the state after all decisions.
    """

    def __init__(self) -> None:
        self._calls: deque[tuple[bool, Callable[[], object]]] = deque()
        self._actions: deque[Callable[[], object]] = deque()

    def decide(self, call: Callable[P, object], *args: P.args, **kwargs: P.kwargs) -> None:
        """Request a call that changes the state."""
        self._calls.append((True, partial(call, *args, **kwargs)))

    def do(self, call: Callable[P, object], *args: P.args, **kwargs: P.kwargs) -> None:
        """Request an action, which does not change the state."""
        self._calls.append((False, partial(call, *args, **kwargs)))

    def empty(self) -> None:
        """Make the calls; after an exception, the rest wait for the next time."""
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
    """True while some of many things are not done; each is done at some time.

    Its truth value is needed after each event. So it examines only one thing until that is done,
    and all things only when those it knew of are done.
    """

    def __init__(self, things: Callable[[], Sequence[One]], done: Callable[[One], object]) -> None:
        """Watch the things that `things` returns; `done` returns whether a thing is done."""
        self._things: Callable[[], Sequence[Any]] = things
        self._done: Callable[[Any], object] = done
        self._known: list[Any] = []

    def __bool__(self) -> bool:
        known, done = self._known, self._done
        while known and done(known[-1]):
            known.pop()
        if not known:
            known += [one for one in self._things() if not done(one)]
        return bool(known)
