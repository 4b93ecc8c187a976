"""Looks for lost nodes of a hold, with growing pauses, until they are back."""

from __future__ import annotations

from ..fleet.events import NodeConnected, NodeDisconnected, NodeEnded, NodeSilent
from ..fleet.reconnector import Pauses, Reconnector

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ...common.loop import Loop
    from ..fleet.events import FleetEvent
    from ..fleet.node_connection import NodeConnection

PAUSES = Pauses(first=2.0, longest=60.0)
"""Between two attempts on a node."""


class NodeKeeper:
    """Reaches nodes again that no run uses; a run looks for its own.

    Attributes:
        reasons: why each lost node is lost.
        on_missing: called whenever a node is lost, or was not reached.
    """

    def __init__(
        self, loop: Loop, reach: Callable[[NodeConnection], None], log: Callable[[str], None]
    ) -> None:
        """Start with nothing to look for.

        Args:
            loop: runs the timers.
            reach: starts one attempt; its outcome is reported to `back` or `failed`.
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
                # An attempt of a run that has ended meanwhile: ask it what it is.
                self.lost(node)

    def lost(self, node: NodeConnection) -> None:
        """Look for a node, unless that is being done."""
        if node in self.reasons:
            return
        self.reasons[node] = node.lost or "its connection was lost"
        self._reconnector.expect(node)
        self.on_missing()

    def back(self, node: NodeConnection) -> None:
        """Handle a node that has been reached."""
        if self.reasons.pop(node, None) is not None:
            self._log(f"{node.name} is back")
        self._reconnector.back(node)

    def failed(self, node: NodeConnection, reason: str) -> None:
        """Handle an attempt that has failed."""
        self.reasons[node] = reason
        self._reconnector.failed(node)
        self.on_missing()


def _nothing() -> None:
    """Do nothing."""
