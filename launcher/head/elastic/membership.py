"""Who may take part in an elastic job: the hosts of the newest list, and no others."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ...specs.host import Host
    from ..fleet.node_connection import Peer
    from .reconnector import Returns
    from .rounds import Rounds

NEW = "not reached yet"
"""What is wrong with a node that has just been named."""

CHANGED = "its new slots count when it has been off the list for once"
"""What is told of a host whose slots are others, while it is in the job."""


class Roster:
    """Has new hosts reached, and lets go of those that are on the list no more."""

    def __init__(
        self,
        peers: Sequence[Peer],
        rounds: Rounds,
        returns: Returns,
        add: Callable[[Host], Peer],
        say: Callable[[str], None],
    ) -> None:
        """Begin with no list at all: until there is one, everybody may take part.

        Args:
            peers: all nodes so far; grows by what `add` makes.
            rounds: what nodes are in or have left.
            returns: what reaches nodes, one attempt after the other.
            add: makes a peer of a host that is none yet.
            say: a line for the user.
        """
        self._peers = peers
        self._rounds = rounds
        self._returns = returns
        self._add = add
        self._say = say
        self._listed: dict[str, Host] | None = None
        self._unlisted: set[Peer] = set()
        self._fresh: dict[str, Host] = {}

    def take(self, hosts: Sequence[Host]) -> None:
        """Take in another list."""
        known = {peer.name: peer for peer in self._peers}
        before, self._listed = self._listed or {}, {host.name: host for host in hosts}
        self._fresh = {name: host for name, host in self._listed.items() if name not in known}
        self._unlisted = {peer for peer in self._peers if peer.name not in self._listed}
        for peer in self._unlisted:
            self._returns.drop(peer)
        for name in known.keys() & self._listed.keys():
            self._take_again(known[name], self._listed[name], before.get(name))
        self.retire()
        self._returns.look()

    def next(self) -> Peer | None:
        """Return a peer of the next host that was added and never reached, if there is one."""
        if not self._fresh:
            return None
        peer = self._add(self._fresh.pop(next(iter(self._fresh))))
        peer.lost = NEW
        return peer

    def lost(self, peer: Peer) -> None:
        """Have a lost node looked for, if it may take part."""
        if self._listed is None or peer.name in self._listed:
            self._returns.expect(peer)

    def gone(self, peer: Peer) -> None:
        """Take in that a node has left which was let go; by now it may be on the list again."""
        host = (self._listed or {}).get(peer.name)
        if host is not None:
            self._welcome_back(peer, host)
        self._returns.look()

    def retire(self) -> None:
        """Let go of nodes that are not on the list any more, as far as enough others are there."""
        for peer in sorted(self._unlisted, key=lambda one: -one.number):
            if not peer.over and self._rounds.retire(peer.number):
                self._unlisted.discard(peer)

    def _take_again(self, peer: Peer, host: Host, before: Host | None) -> None:
        """Take in that a host that is known already is on the list, with the slots that it has."""
        former = {
            peer.origin.host.slots,
            peer.origin.host.slots if before is None else before.slots,
        }
        if peer.over:
            self._welcome_back(peer, host)
        elif host.slots not in former:
            self._say(f"{peer.name}: {CHANGED}")

    def _welcome_back(self, peer: Peer, host: Host) -> None:
        """Reach a host again that had been taken off the list."""
        if peer.done is not None:
            peer.origin = peer.origin._replace(host=host)
            peer.node = peer.node._replace(host=host)
            peer.lost = NEW
            self._returns.begin(peer)
        elif peer.lost:
            self._returns.expect(peer)
