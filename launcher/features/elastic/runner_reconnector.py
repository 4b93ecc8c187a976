"""Reaches lost nodes again, and nodes of hosts that were added to an elastic job.

That happens in the background and costs a job little, however many hosts are listed: few attempts
at a time, with pauses between their starts, and a limited rate over all hosts.
"""

from __future__ import annotations

from ...common.records import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeAlias

    from ...common.loop import Loop, Timer, Timers

    Target: TypeAlias = Any
    """A node, as its owner knows it."""

RETRIES = 5.0
"""Attempts per second, in the long run, on hosts that have never been in the job."""

AT_ONCE = 16
"""Attempts at the same time: each needs a thread or an ssh client."""

PACE = 0.05
"""Seconds between the starts of two attempts."""

PATIENCE = 120.0
"""Seconds after which an attempt no longer counts towards `AT_ONCE`."""


class Pauses(NamedTuple):
    """Pauses between attempts, in seconds.

    Attributes:
        first: the pause between the loss of a node and the first attempt; each failure doubles it.
        longest: the longest pause between two attempts, unless `RETRIES` requires a longer one.
    """

    first: float
    longest: float


class Reconnector:
    """Reaches nodes, with one attempt at a time for each."""

    def __init__(
        self,
        loop: Loop | Timers,
        pauses: Pauses,
        reach: Callable[[Target], None],
        is_lost: Callable[[Target], bool],
        room: Callable[[], int] = lambda: 0,
        fresh: Callable[[], Target | None] = lambda: None,
    ) -> None:
        """Start with nothing to reach.

        Args:
            loop: runs the timers.
            pauses: the pauses between two attempts on a node.
            is_lost: returns whether a node is still to be reached, when its pause is over.
            reach: starts one attempt; its outcome is reported to `failed` or `back`.
            room: returns the number of usable nodes beyond the lost ones.
            fresh: returns a node for the next host that was added and not tried yet.
        """
        self._loop = loop
        self._limits = pauses
        self._reach = reach
        self._is_lost = is_lost
        self._room = room
        self._fresh = fresh
        self._pauses: dict[Target, float] = {}
        self._since: dict[Target, float] = {}
        self._strangers: set[Target] = set()
        self._dropped: set[Target] = set()
        self._pausing: dict[Target, Timer] = {}
        self._due: dict[Target, None] = {}
        self._due_strangers: dict[Target, None] = {}
        self._trying: set[Target] = set()
        self._places: dict[Target, Timer] = {}
        self._next: Timer | None = None
        self._closed = False

    def start(self, node: Target) -> None:
        """Reach a node as soon as possible."""
        self._dropped.discard(node)
        self._is_due(node)

    def cancel(self, node: Target) -> None:
        """Stop reaching a node."""
        self._dropped.add(node)
        self._due_of(node).pop(node, None)
        self._stop_pause(node)

    def expect(self, node: Target) -> None:
        """Reach a lost node after a delay, unless an attempt is already planned.

        The delay grows each time. It is reset when the node has stayed connected for twice the
        delay.
        """
        self._dropped.discard(node)
        looked_for = self._pausing, self._due_of(node), self._trying
        if not any(node in one for one in looked_for):
            pause = self._pause(node)
            self._pausing[node] = self._loop.call_later(pause, lambda: self._is_due(node))
        self.advance()

    def failed(self, node: Target) -> None:
        """Handle an attempt that has failed."""
        if node not in self._trying:
            return
        self._finish(node)
        if node not in self._dropped:
            self.expect(node)

    def back(self, node: Target) -> None:
        """Handle a node that was reached."""
        self._strangers.discard(node)
        self._since[node] = self._loop.clock()
        self._finish(node)

    def close(self) -> None:
        """Stop starting attempts."""
        self._closed = True

    def advance(self) -> None:
        """Start the next attempt, if one is due."""
        if self._closed or self._next is not None or len(self._places) >= AT_ONCE:
            return
        node = self._choose()
        if node is not None:
            self._next = self._loop.call_later(PACE, self._look_on)
            self._try(node)

    def _look_on(self) -> None:
        self._next = None
        self.advance()

    def _choose(self) -> Target | None:
        """Return the next node: those lost from the job, then those never tried, then the rest."""
        if self._due:
            return _first_of(self._due)
        if self._room() <= len(self._places):
            return None
        return self._stranger() or _first_of(self._due_strangers)

    def _stranger(self) -> Target | None:
        node = self._fresh()
        if node is not None:
            self._strangers.add(node)
        return node

    def _try(self, node: Target) -> None:
        self._trying.add(node)
        self._places[node] = self._loop.call_later(PATIENCE, lambda: self._release_place(node))
        self._reach(node)

    def _finish(self, node: Target) -> None:
        self._trying.discard(node)
        self._release_place(node)

    def _release_place(self, node: Target) -> None:
        if node in self._places:
            self._places.pop(node).cancel()
            self.advance()

    def _is_due(self, node: Target) -> None:
        self._stop_pause(node)
        if self._is_lost(node) and node not in self._trying:
            self._due_of(node)[node] = None
        self.advance()

    def _due_of(self, node: Target) -> dict[Target, None]:
        return self._due_strangers if node in self._strangers else self._due

    def _stop_pause(self, node: Target) -> None:
        if node in self._pausing:
            self._pausing.pop(node).cancel()

    def _pause(self, node: Target) -> float:
        """Return the delay before the next attempt on a node, and increase the following delay."""
        first, longest = self._limits
        pause = self._pauses.get(node, first)
        if self._loop.clock() - self._since.pop(node, float("inf")) > 2 * pause:
            pause = first
        self._pauses[node] = min(longest, 2 * pause)
        return max(pause, len(self._strangers) / RETRIES if node in self._strangers else 0.0)


def _first_of(nodes: dict[Target, None]) -> Target | None:
    """Remove and return the first node, if any."""
    first = next(iter(nodes), None)
    if first is not None:
        del nodes[first]
    return first
