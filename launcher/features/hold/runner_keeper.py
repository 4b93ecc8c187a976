"""Attempts to reach lost nodes of a hold, with growing pauses, until they are back."""

from __future__ import annotations

from ...head.fleet.events import NodeConnected, NodeDisconnected, NodeEnded, NodeSilent
from ..elastic.runner_reconnector import Pauses, Reconnector

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ...common.loop import Loop
    from ...head.fleet.events import FleetEvent
    from ...head.fleet.node_connection import NodeConnection

PAUSES = Pauses(first=2.0, longest=60.0)
"""Pauses between two attempts to reach a node."""


class NodeKeeper:
    """Reconnects lost nodes that no run uses; a run reconnects its own.

    Attributes:
        reasons: the reason of each loss, by node.
        on_missing: called when a node is lost, and after each failed attempt.
    """

    def __init__(
        self, loop: Loop, reach: Callable[[NodeConnection], None], log: Callable[[str], None]
    ) -> None:
        """Create a keeper without lost nodes.

        Args:
            loop: runs the timers.
            reach: starts an attempt; the outcome is reported to `back` or `failed`.
            log: prints a line for the user.
        """
        self._log = log
        self.on_missing: Callable[[], None] = _nothing
        self.reasons: dict[NodeConnection, str] = {}
        is_lost = self.reasons.__contains__
        self._reconnector = Reconnector(loop, PAUSES, reach, is_lost)

    def close(self) -> None:
        """Start no more attempts."""
        self._reconnector.close()

    def on_event(self, event: FleetEvent) -> None:
        """Handle an event of a node that no run uses."""
        match event:
            case NodeDisconnected(node) | NodeSilent(node):
                self.lost(node)
            case NodeEnded(node, cause) if node in self.reasons and cause:
                self.reasons[node] = cause
            case NodeConnected(node):
                # A run that has ended since made this attempt: survey the node.
                self.lost(node)

    def lost(self, node: NodeConnection) -> None:
        """Start to look for a lost node, unless that is being done."""
        if node in self.reasons:
            return
        self.reasons[node] = node.lost or "its connection was lost"
        self._reconnector.expect(node)
        self.on_missing()

    def back(self, node: NodeConnection) -> None:
        """Handle a node that was reached."""
        if self.reasons.pop(node, None) is not None:
            self._log(f"{node.name} is back")
        self._reconnector.back(node)

    def failed(self, node: NodeConnection, reason: str) -> None:
        """Handle a failed attempt."""
        self.reasons[node] = reason
        self._reconnector.failed(node)
        self.on_missing()


def _nothing() -> None:
    """Do nothing."""
