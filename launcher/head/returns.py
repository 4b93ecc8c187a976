"""Lost nodes of an elastic job are looked for again; who comes back is in a later round."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ..loop import Loop
    from .peer import Peer

FIRST = 5.0
"""Seconds from the loss of a node to the first attempt; each failure doubles it."""

LONGEST = 30.0
"""Seconds between two attempts at most."""


class Returns:
    """Has lost peers reached again, one attempt at a time for each."""

    def __init__(self, loop: Loop, reach: Callable[[Peer], None]) -> None:
        """Be ready; `reach` begins one attempt, whose end `failed` or `back` is told of."""
        self._loop = loop
        self._reach = reach
        self._pauses: dict[Peer, float] = {}
        self._trying: set[Peer] = set()
        self._dropped: set[Peer] = set()
        self._since: dict[Peer, float] = {}
        self._closed = False

    def begin(self, peer: Peer) -> None:
        """Look for a node at once."""
        self._dropped.discard(peer)
        self._try(peer)

    def drop(self, peer: Peer) -> None:
        """Do not look for a node any more."""
        self._dropped.add(peer)

    def expect(self, peer: Peer) -> None:
        """Begin to look for a node that was lost just now.

        One that is lost again soon is looked for later and later. That is forgotten once it has
        stayed for longer than it was given up for.
        """
        pause = self._pauses.get(peer, FIRST)
        if self._loop.clock() - self._since.pop(peer, float("inf")) > 2 * pause:
            pause = FIRST
        self._pauses[peer] = min(LONGEST, 2 * pause)
        self._trying.discard(peer)
        self._dropped.discard(peer)
        self._loop.after(pause, lambda: self._try(peer))

    def failed(self, peer: Peer) -> None:
        """Take in that an attempt has failed."""
        if peer not in self._trying:
            return
        self._trying.discard(peer)
        if peer not in self._dropped:
            self.expect(peer)

    def back(self, peer: Peer) -> None:
        """Take in that it is there."""
        self._trying.discard(peer)
        self._since[peer] = self._loop.clock()

    def close(self) -> None:
        """Look for nobody any more."""
        self._closed = True

    def _try(self, peer: Peer) -> None:
        if self._closed or peer in self._dropped:
            return
        if peer.lost and peer not in self._trying:
            self._trying.add(peer)
            self._reach(peer)
