"""Looks for lost nodes of a hold, with growing pauses, until they are back."""

from __future__ import annotations

from ..fleet.events import NodeConnected, NodeDisconnected, NodeEnded, NodeSilent

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ...common.loop import Loop
    from ..fleet.events import FleetEvent
    from ..fleet.node_connection import NodeConnection

FIRST = 2.0
"""Seconds from the loss of a node to the first attempt; each failure doubles it."""

LONGEST = 60.0
"""Longest pause between two attempts in seconds."""

AT_ONCE = 16
"""Attempts at the same time: each needs a thread or an ssh client."""


class Keeper:
    """Reaches nodes again that no run uses; a run looks for its own.

    Attributes:
        reasons: why each lost node is lost.
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
        self._loop = loop
        self._reach = reach
        self._log = log
        self._pauses: dict[NodeConnection, float] = {}
        self._trying: set[NodeConnection] = set()
        self._due: dict[NodeConnection, None] = {}
        self._closed = False
        self.reasons: dict[NodeConnection, str] = {}

    def close(self) -> None:
        """Start no more attempts."""
        self._closed = True

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
        self._pauses[node] = FIRST
        self._wait(node)

    def back(self, node: NodeConnection) -> None:
        """Handle a node that has been reached."""
        self._trying.discard(node)
        self._pauses.pop(node, None)
        if self.reasons.pop(node, None) is not None:
            self._log(f"{node.name} is back")
        self._go_on()

    def failed(self, node: NodeConnection, reason: str) -> None:
        """Handle an attempt that has failed."""
        self._trying.discard(node)
        self.reasons[node] = reason
        self._pauses[node] = min(LONGEST, 2 * self._pauses.get(node, FIRST))
        self._wait(node)
        self._go_on()

    def _wait(self, node: NodeConnection) -> None:
        self._loop.call_later(self._pauses[node], lambda: self._is_due(node))

    def _is_due(self, node: NodeConnection) -> None:
        self._due[node] = None
        self._go_on()

    def _go_on(self) -> None:
        while self._due and len(self._trying) < AT_ONCE and not self._closed:
            node = next(iter(self._due))
            del self._due[node]
            self._trying.add(node)
            self._reach(node)
