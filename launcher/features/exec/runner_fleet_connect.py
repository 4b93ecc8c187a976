"""Connects the nodes of a fleet, and waits until each is connected or has failed."""

from __future__ import annotations

from ...backends.events import EngineEnded
from ...head.fleet.events import NodeConnected, NodeDisconnected, NodeEnded, NodeSilent

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ...head.fleet.events import FleetEvent
    from ...head.fleet.fleet import NodeFleet
    from ...head.fleet.node_connection import NodeConnection

LATE = "no answer in time (--start_timeout)"
"""The cause for hosts that were not connected in time."""


class FleetConnect:
    """The nodes of a fleet, while they connect.

    Attributes:
        nodes: all nodes in order.
        connected: nodes that were connected, in the order of their arrival.
        waiting: nodes that have neither connected nor failed yet.
        causes: the backend's reasons for the ends of sessions, by node; a session may have ended
            without any message.
    """

    def __init__(self, fleet: NodeFleet, connect: Callable[[], None], timeout: float) -> None:
        """Prepare to connect.

        Args:
            fleet: the nodes.
            connect: starts to connect the nodes.
            timeout: seconds for all nodes to connect.
        """
        self.nodes = list(fleet.nodes.values())
        self.connected: list[NodeConnection] = []
        self.waiting = dict.fromkeys(self.nodes)
        self.causes: dict[NodeConnection, str] = {}
        self._fleet = fleet
        self._connect = connect
        self._timeout = timeout
        self._on_failed: Callable[[NodeConnection, str], None]
        self._on_ready: Callable[[], None]

    def start(
        self, on_failed: Callable[[NodeConnection, str], None], on_ready: Callable[[], None]
    ) -> None:
        """Start to connect.

        Args:
            on_failed: called with each node that does not connect, and the cause.
            on_ready: called once every node has connected or failed.
        """
        self._on_failed, self._on_ready = on_failed, on_ready
        self._fleet.lend(self.nodes, self._on_fleet)
        self._fleet.loop.call_later(self._timeout, lambda: self.cancel(LATE))
        self._connect()

    def cancel(self, cause: str) -> None:
        """Stop waiting: nodes that are not connected have failed."""
        for node in tuple(self.waiting):
            self._failed(node, cause)

    def _on_fleet(self, event: FleetEvent) -> None:
        match event:
            case NodeConnected(node) if node in self.waiting:
                del self.waiting[node]
                self.connected.append(node)
                self._finish_if_ready()
            case NodeEnded(node, cause) | NodeDisconnected(node, cause, _):
                if cause and isinstance(event, NodeEnded):
                    self.causes[node] = cause
                self._failed(node, cause or node.lost or "its node launcher has exited")
            case NodeSilent(node, _):
                self._failed(node, node.lost)
            case EngineEnded(cause, _, _):
                for node in tuple(self.waiting):
                    self._failed(node, cause or node.lost)

    def _failed(self, node: NodeConnection, cause: str) -> None:
        """Record that a node cannot be connected; a later loss is reported by the node's users."""
        if node in self.waiting:
            del self.waiting[node]
            self._on_failed(node, cause)
            self._finish_if_ready()

    def _finish_if_ready(self) -> None:
        if not self.waiting:
            self._on_ready()
