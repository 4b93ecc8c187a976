"""Nodes that are not in an elastic job are reached: lost ones again, and those that were added.

That goes on in the background, and costs the job little however many hosts are listed: few at a
time, one begun after the other, and no host more often than all of them together allow.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ...common.loop import Loop, Timer
    from ..fleet.node_connection import Peer

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


class Returns:
    """Has peers reached, one attempt at a time for each."""

    def __init__(
        self,
        loop: Loop,
        reach: Callable[[Peer], None],
        room: Callable[[], int],
        fresh: Callable[[], Peer | None],
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
        self._pauses: dict[Peer, float] = {}
        self._since: dict[Peer, float] = {}
        self._strangers: set[Peer] = set()
        self._dropped: set[Peer] = set()
        self._pausing: dict[Peer, Timer] = {}
        self._due: dict[Peer, None] = {}
        self._due_strangers: dict[Peer, None] = {}
        self._trying: set[Peer] = set()
        self._places: dict[Peer, Timer] = {}
        self._next: Timer | None = None
        self._closed = False

    def begin(self, peer: Peer) -> None:
        """Look for a node as soon as there is room for that."""
        self._dropped.discard(peer)
        self._is_due(peer)

    def drop(self, peer: Peer) -> None:
        """Do not look for a node any more."""
        self._dropped.add(peer)
        self._due_of(peer).pop(peer, None)
        self._stop_pause(peer)

    def expect(self, peer: Peer) -> None:
        """Begin to look for a node that was lost, unless it is looked for already.

        One that is lost again soon is looked for later and later. That is forgotten once it has
        stayed for longer than it was given up for.
        """
        self._dropped.discard(peer)
        looked_for = self._pausing, self._due_of(peer), self._trying
        if not any(peer in one for one in looked_for):
            pause = self._pause(peer)
            self._pausing[peer] = self._loop.after(pause, lambda: self._is_due(peer))
        self.look()

    def failed(self, peer: Peer) -> None:
        """Take in that an attempt has failed."""
        if peer not in self._trying:
            return
        self._leave(peer)
        if peer not in self._dropped:
            self.expect(peer)

    def back(self, peer: Peer) -> None:
        """Take in that it is there."""
        self._strangers.discard(peer)
        self._since[peer] = self._loop.clock()
        self._leave(peer)

    def close(self) -> None:
        """Look for nobody any more."""
        self._closed = True

    def look(self) -> None:
        """Begin the next attempt, if it is time for it."""
        if self._closed or self._next is not None or len(self._places) >= AT_ONCE:
            return
        peer = self._choose()
        if peer is not None:
            self._next = self._loop.after(PACE, self._look_on)
            self._try(peer)

    def _look_on(self) -> None:
        self._next = None
        self.look()

    def _choose(self) -> Peer | None:
        """Return who is next: those that have been in, then those never tried, then the others."""
        if self._due:
            return _first_of(self._due)
        if self._room() <= len(self._places):
            return None
        return self._stranger() or _first_of(self._due_strangers)

    def _stranger(self) -> Peer | None:
        peer = self._fresh()
        if peer is not None:
            self._strangers.add(peer)
        return peer

    def _try(self, peer: Peer) -> None:
        self._trying.add(peer)
        self._places[peer] = self._loop.after(PATIENCE, lambda: self._give_place(peer))
        self._reach(peer)

    def _leave(self, peer: Peer) -> None:
        self._trying.discard(peer)
        self._give_place(peer)

    def _give_place(self, peer: Peer) -> None:
        if peer in self._places:
            self._places.pop(peer).cancel()
            self.look()

    def _is_due(self, peer: Peer) -> None:
        self._stop_pause(peer)
        if peer.lost and peer not in self._trying:
            self._due_of(peer)[peer] = None
        self.look()

    def _due_of(self, peer: Peer) -> dict[Peer, None]:
        return self._due_strangers if peer in self._strangers else self._due

    def _stop_pause(self, peer: Peer) -> None:
        if peer in self._pausing:
            self._pausing.pop(peer).cancel()

    def _pause(self, peer: Peer) -> float:
        """Return how long to wait for a peer from now on; the next time it is longer."""
        pause = self._pauses.get(peer, FIRST)
        if self._loop.clock() - self._since.pop(peer, float("inf")) > 2 * pause:
            pause = FIRST
        self._pauses[peer] = min(LONGEST, 2 * pause)
        return max(pause, len(self._strangers) / RETRIES if peer in self._strangers else 0.0)


def _first_of(peers: dict[Peer, None]) -> Peer | None:
    """Take the first out, if there is one."""
    first = next(iter(peers), None)
    if first is not None:
        del peers[first]
    return first
