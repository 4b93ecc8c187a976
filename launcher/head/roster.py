"""Who may take part in an elastic job: the hosts of the newest list, and no others."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ..elastic.rounds import Rounds
    from ..resources.host import Host
    from .peer import Peer
    from .returns import Returns

NEW = "not reached yet"
"""What is wrong with a node that has just been named."""


class Roster:
    """Has new hosts reached, and lets go of those that are on the list no more."""

    def __init__(
        self,
        peers: Sequence[Peer],
        rounds: Rounds,
        returns: Returns,
        add: Callable[[Host], Peer],
    ) -> None:
        """Begin with no list at all: until there is one, everybody may take part.

        Args:
            peers: all nodes so far; grows by what `add` makes.
            rounds: what nodes are in or have left.
            returns: what reaches nodes, one attempt after the other.
            add: makes a peer of a host that is none yet.
        """
        self._peers = peers
        self._rounds = rounds
        self._returns = returns
        self._add = add
        self._listed: dict[str, Host] | None = None
        self._unlisted: set[Peer] = set()

    def take(self, hosts: Sequence[Host]) -> None:
        """Take in another list."""
        known = {peer.name: peer for peer in self._peers}
        self._listed = {host.name: host for host in hosts}
        self._unlisted = {peer for peer in self._peers if peer.name not in self._listed}
        for peer in self._unlisted:
            self._returns.drop(peer)
        for host in hosts:
            if host.name not in known:
                self._reach(self._add(host))
            elif known[host.name].over:
                self._welcome_back(known[host.name], host)
        self.retire()

    def lost(self, peer: Peer) -> None:
        """Have a lost node looked for, if it may take part."""
        if self._listed is None or peer.name in self._listed:
            self._returns.expect(peer)

    def gone(self, peer: Peer) -> None:
        """Take in that a node has left which was let go; by now it may be on the list again."""
        host = (self._listed or {}).get(peer.name)
        if host is not None:
            self._welcome_back(peer, host)

    def retire(self) -> None:
        """Let go of nodes that are not on the list any more, as far as enough others are there."""
        for peer in sorted(self._unlisted, key=lambda one: -one.number):
            if not peer.over and self._rounds.retire(peer.number):
                self._unlisted.discard(peer)

    def _welcome_back(self, peer: Peer, host: Host) -> None:
        """Reach a host again that had been taken off the list."""
        if peer.done is not None:
            peer.origin = peer.origin._replace(host=host)
            peer.node = peer.node._replace(host=host)
            self._reach(peer)
        elif peer.lost:
            self._returns.expect(peer)

    def _reach(self, peer: Peer) -> None:
        """Reach a node for the first time, or as if it were."""
        peer.lost = NEW
        self._returns.begin(peer)
