"""Who may take part in an elastic job: the hosts of the newest list, and no others."""

from __future__ import annotations

from .round_events import NodeRemoved

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ...specs.host import Host
    from ..fleet.reconnector import Reconnector
    from ..run.run_node import RunNode
    from .round_events import RoundEvent

CHANGED = "its new slots have no effect until it has been off the list once"
"""The warning about a host whose slots have changed while it is in the job."""


class Membership:
    """Adds new hosts, and releases the nodes of those that are no longer on the list."""

    def __init__(
        self,
        nodes: Sequence[RunNode],
        handle: Callable[[RoundEvent], bool],
        reconnector: Reconnector,
        add: Callable[[Host], RunNode],
        log: Callable[[str], None],
    ) -> None:
        """Start without a list: until there is one, all nodes may take part.

        Args:
            nodes: all nodes so far; grows by what `add` makes.
            handle: has the rounds handle an event; returns its answer.
            reconnector: reaches nodes.
            add: returns a new node of a host.
            log: prints a line for the user.
        """
        self._nodes = nodes
        self._handle = handle
        self._reconnector = reconnector
        self._add = add
        self._log = log
        self._listed: dict[str, Host] | None = None
        self._unlisted: set[RunNode] = set()
        self._fresh: dict[str, Host] = {}

    def take(self, hosts: Sequence[Host]) -> None:
        """Use another list."""
        known = {node.name: node for node in self._nodes}
        before, self._listed = self._listed or {}, {host.name: host for host in hosts}
        self._fresh = {name: host for name, host in self._listed.items() if name not in known}
        self._unlisted = {node for node in self._nodes if node.name not in self._listed}
        for node in self._unlisted:
            self._reconnector.drop(node.connection)
        for name in known.keys() & self._listed.keys():
            self._update(known[name], self._listed[name], before.get(name))
        self.retire()
        self._reconnector.look()

    def next(self) -> RunNode | None:
        """Return a node for the next host that was added and not reached yet, if there is one."""
        if not self._fresh:
            return None
        node = self._add(self._fresh.pop(next(iter(self._fresh))))
        node.await_first()
        return node

    def lost(self, node: RunNode) -> None:
        """Reach a lost node again, if its host is on the list."""
        if self._listed is None or node.name in self._listed:
            self._reconnector.expect(node.connection)

    def gone(self, node: RunNode) -> None:
        """Handle the end of a node that was released; its host may be on the list again by now."""
        host = (self._listed or {}).get(node.name)
        if host is not None:
            self._bring_back(node, host)
        self._reconnector.look()

    def retire(self) -> None:
        """Release nodes whose hosts are no longer on the list, if enough others are left.

        That is asked for again whenever a node has come: until it is released, a node may be kept.
        """
        for node in sorted(self._unlisted, key=lambda one: -one.number):
            if not node.over:
                self._handle(NodeRemoved(node.number))

    def _update(self, node: RunNode, host: Host, before: Host | None) -> None:
        """Handle a host of the list that has a node already."""
        known = {
            node.connection.origin.host.slots,
            node.connection.origin.host.slots if before is None else before.slots,
        }
        if node.over:
            self._bring_back(node, host)
        elif host.slots not in known:
            self._log(f"{node.name}: {CHANGED}")

    def _bring_back(self, node: RunNode, host: Host) -> None:
        """Reach a node again whose host had been removed from the list."""
        if node.done is not None:
            node.connection.origin = node.connection.origin._replace(host=host)
            node.node = node.node._replace(host=host)
            node.await_first()
            self._reconnector.begin(node.connection)
        elif node.lost:
            self._reconnector.expect(node.connection)
