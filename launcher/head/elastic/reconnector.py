"""Nodes that are not in an elastic job are reached: lost ones again, and those that were added.

That goes on in the background, and costs the job little however many hosts are listed: few at a
time, one begun after the other, and no host more often than all of them together allow.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ...common.loop import Loop, Timer
    from ..run.run_node import RunNode

FIRST = 5.0
"""Seconds from the loss of a node to the first attempt; each failure doubles it."""

LONGEST = 30.0
"""Seconds between two attempts at most, but for what `RETRIES` has many hosts wait."""

RETRIES = 5.0
"""Attempts a second, in the long run, on hosts that have never been in the job."""

AT_ONCE = 16
"""Attempts that go on at the same time: each has a thread or a client of its own."""

PACE = 0.05
"""Seconds from the beginning of an attempt to that of the next."""

PATIENCE = 120.0
"""Seconds after which an attempt does not keep another one waiting any more."""


class Reconnector:
    """Has nodes reached, one attempt at a time for each."""

    def __init__(
        self,
        loop: Loop,
        reach: Callable[[RunNode], None],
        room: Callable[[], int],
        fresh: Callable[[], RunNode | None],
    ) -> None:
        """Be ready.

        Args:
            loop: that it runs on.
            reach: begins one attempt, whose end `failed` or `back` is told of.
            room: how many nodes the job has a use for beside those that are there.
            fresh: gives the next host that was added and never tried, each once.
        """
        self._loop = loop
        self._reach = reach
        self._room = room
        self._fresh = fresh
        self._pauses: dict[RunNode, float] = {}
        self._since: dict[RunNode, float] = {}
        self._strangers: set[RunNode] = set()
        self._dropped: set[RunNode] = set()
        self._pausing: dict[RunNode, Timer] = {}
        self._due: dict[RunNode, None] = {}
        self._due_strangers: dict[RunNode, None] = {}
        self._trying: set[RunNode] = set()
        self._places: dict[RunNode, Timer] = {}
        self._next: Timer | None = None
        self._closed = False

    def begin(self, node: RunNode) -> None:
        """Look for a node as soon as there is room for that."""
        self._dropped.discard(node)
        self._is_due(node)

    def drop(self, node: RunNode) -> None:
        """Do not look for a node any more."""
        self._dropped.add(node)
        self._due_of(node).pop(node, None)
        self._stop_pause(node)

    def expect(self, node: RunNode) -> None:
        """Begin to look for a node that was lost, unless it is looked for already.

        One that is lost again soon is looked for later and later. That is forgotten once it has
        stayed for longer than it was given up for.
        """
        self._dropped.discard(node)
        looked_for = self._pausing, self._due_of(node), self._trying
        if not any(node in one for one in looked_for):
            pause = self._pause(node)
            self._pausing[node] = self._loop.call_later(pause, lambda: self._is_due(node))
        self.look()

    def failed(self, node: RunNode) -> None:
        """Take in that an attempt has failed."""
        if node not in self._trying:
            return
        self._leave(node)
        if node not in self._dropped:
            self.expect(node)

    def back(self, node: RunNode) -> None:
        """Take in that it is there."""
        self._strangers.discard(node)
        self._since[node] = self._loop.clock()
        self._leave(node)

    def close(self) -> None:
        """Look for nobody any more."""
        self._closed = True

    def look(self) -> None:
        """Begin the next attempt, if it is time for it."""
        if self._closed or self._next is not None or len(self._places) >= AT_ONCE:
            return
        node = self._choose()
        if node is not None:
            self._next = self._loop.call_later(PACE, self._look_on)
            self._try(node)

    def _look_on(self) -> None:
        self._next = None
        self.look()

    def _choose(self) -> RunNode | None:
        """Return who is next: those that have been in, then those never tried, then the others."""
        if self._due:
            return _first_of(self._due)
        if self._room() <= len(self._places):
            return None
        return self._stranger() or _first_of(self._due_strangers)

    def _stranger(self) -> RunNode | None:
        node = self._fresh()
        if node is not None:
            self._strangers.add(node)
        return node

    def _try(self, node: RunNode) -> None:
        self._trying.add(node)
        self._places[node] = self._loop.call_later(PATIENCE, lambda: self._give_place(node))
        self._reach(node)

    def _leave(self, node: RunNode) -> None:
        self._trying.discard(node)
        self._give_place(node)

    def _give_place(self, node: RunNode) -> None:
        if node in self._places:
            self._places.pop(node).cancel()
            self.look()

    def _is_due(self, node: RunNode) -> None:
        self._stop_pause(node)
        if node.lost and node not in self._trying:
            self._due_of(node)[node] = None
        self.look()

    def _due_of(self, node: RunNode) -> dict[RunNode, None]:
        return self._due_strangers if node in self._strangers else self._due

    def _stop_pause(self, node: RunNode) -> None:
        if node in self._pausing:
            self._pausing.pop(node).cancel()

    def _pause(self, node: RunNode) -> float:
        """Return how long to wait for a node from now on; the next time it is longer."""
        pause = self._pauses.get(node, FIRST)
        if self._loop.clock() - self._since.pop(node, float("inf")) > 2 * pause:
            pause = FIRST
        self._pauses[node] = min(LONGEST, 2 * pause)
        return max(pause, len(self._strangers) / RETRIES if node in self._strangers else 0.0)


def _first_of(nodes: dict[RunNode, None]) -> RunNode | None:
    """Take the first out, if there is one."""
    first = next(iter(nodes), None)
    if first is not None:
        del nodes[first]
    return first
