"""Ends the leftovers of a job on the nodes of a fleet that was connected for this purpose."""

from __future__ import annotations

from ...control.job_messages import END_JOB
from ...head.fleet.events import NO_MESSAGE, NodeConnected, NodeDisconnected, NodeEnded

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...control.job_messages import EndedJob, EndJob
    from ...head.fleet.events import FleetEvent
    from ...head.fleet.fleet import NodeFleet
    from ...head.fleet.node_connection import NodeConnection

MARGIN = 30.0
"""Seconds beyond the grace for a node to tell the outcome."""


class JobEnd:
    """Sends the order to each node that connects, until all have answered or been given up.

    Attributes:
        outcomes: the answer of each host.
        unreached: the reason for a missing answer, by host.
    """

    def __init__(self, fleet: NodeFleet, order: EndJob, patience: float) -> None:
        """Expect an answer from each node; `patience` is the time for connections, in seconds."""
        self.outcomes: dict[str, EndedJob] = {}
        self.unreached: dict[str, str] = {}
        self._fleet = fleet
        self._order = order
        self._last = patience + order.grace + MARGIN
        self._waiting = set(fleet.nodes.values())
        fleet.lend(tuple(self._waiting), self._on_event)
        fleet.loop.call_later(patience, lambda: self._lose_silent(connected=False))
        fleet.loop.call_later(self._last, lambda: self._lose_silent(connected=True))

    def wait(self) -> None:
        """Run the loop until nothing more is expected."""
        if self._waiting:
            self._fleet.loop.run()
        self._fleet.take_back(self._on_event)

    def _on_event(self, event: FleetEvent) -> None:
        match event:
            case NodeConnected(node):
                ask = self._fleet.node_queries.ask
                ask([node], END_JOB, self._order, self._on_outcomes, self._last)
            case NodeDisconnected(node, reason, fault):
                self._lose(node, fault or f"its node launcher disconnected ({reason})")
            case NodeEnded(node, cause):
                self._lose(node, cause or NO_MESSAGE)

    def _on_outcomes(self, told: dict[NodeConnection, EndedJob]) -> None:
        for node, outcome in told.items():
            self.outcomes[node.name] = outcome
            self._finish_node(node)

    def _lose(self, node: NodeConnection, reason: str) -> None:
        """Record why a node does not answer; the backend's cause may follow the first reason."""
        if node.name not in self.outcomes:
            self.unreached[node.name] = reason
            self._finish_node(node)

    def _lose_silent(self, *, connected: bool) -> None:
        for node in tuple(self._waiting):
            if connected or not node.connected:
                self._lose(node, "no answer")

    def _finish_node(self, node: NodeConnection) -> None:
        self._waiting.discard(node)
        if not self._waiting:
            self._fleet.loop.stop()
