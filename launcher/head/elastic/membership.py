"""Who may take part in an elastic job: the hosts of the newest list, and no others."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ...specs.host import Host
    from ..run.run_node import RunNode
    from .reconnector import Reconnector
    from .rounds import Rounds

NEW = "not reached yet"
"""What is wrong with a node that has just been named."""

CHANGED = "its new slots count when it has been off the list for once"
"""What is told of a host whose slots are others, while it is in the job."""


class Membership:
    """Has new hosts reached, and lets go of those that are on the list no more."""

    def __init__(
        self,
        nodes: Sequence[RunNode],
        rounds: Rounds,
        returns: Reconnector,
        add: Callable[[Host], RunNode],
        log: Callable[[str], None],
    ) -> None:
        """Begin with no list at all: until there is one, everybody may take part.

        Args:
            nodes: all nodes so far; grows by what `add` makes.
            rounds: what nodes are in or have left.
            returns: what reaches nodes, one attempt after the other.
            add: makes a node of a host that is none yet.
            log: a line for the user.
        """
        self._nodes = nodes
        self._rounds = rounds
        self._reconnector = returns
        self._add = add
        self._log = log
        self._listed: dict[str, Host] | None = None
        self._unlisted: set[RunNode] = set()
        self._fresh: dict[str, Host] = {}

    def take(self, hosts: Sequence[Host]) -> None:
        """Take in another list."""
        known = {node.name: node for node in self._nodes}
        before, self._listed = self._listed or {}, {host.name: host for host in hosts}
        self._fresh = {name: host for name, host in self._listed.items() if name not in known}
        self._unlisted = {node for node in self._nodes if node.name not in self._listed}
        for node in self._unlisted:
            self._reconnector.drop(node)
        for name in known.keys() & self._listed.keys():
            self._take_again(known[name], self._listed[name], before.get(name))
        self.retire()
        self._reconnector.look()

    def next(self) -> RunNode | None:
        """Return a node of the next host that was added and never reached, if there is one."""
        if not self._fresh:
            return None
        node = self._add(self._fresh.pop(next(iter(self._fresh))))
        node.lost = NEW
        return node

    def lost(self, node: RunNode) -> None:
        """Have a lost node looked for, if it may take part."""
        if self._listed is None or node.name in self._listed:
            self._reconnector.expect(node)

    def gone(self, node: RunNode) -> None:
        """Take in that a node has left which was let go; by now it may be on the list again."""
        host = (self._listed or {}).get(node.name)
        if host is not None:
            self._welcome_back(node, host)
        self._reconnector.look()

    def retire(self) -> None:
        """Let go of nodes that are not on the list any more, as far as enough others are there."""
        for node in sorted(self._unlisted, key=lambda one: -one.number):
            if not node.over and self._rounds.retire(node.number):
                self._unlisted.discard(node)

    def _take_again(self, node: RunNode, host: Host, before: Host | None) -> None:
        """Take in that a host that is known already is on the list, with the slots that it has."""
        former = {
            node.connection.origin.host.slots,
            node.connection.origin.host.slots if before is None else before.slots,
        }
        if node.over:
            self._welcome_back(node, host)
        elif host.slots not in former:
            self._log(f"{node.name}: {CHANGED}")

    def _welcome_back(self, node: RunNode, host: Host) -> None:
        """Reach a host again that had been taken off the list."""
        if node.done is not None:
            node.connection.origin = node.connection.origin._replace(host=host)
            node.node = node.node._replace(host=host)
            node.lost = NEW
            self._reconnector.begin(node)
        elif node.lost:
            self._reconnector.expect(node)
