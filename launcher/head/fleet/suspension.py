"""Ctrl-Z: announced to the nodes before this process stops; they then expect no heartbeats.

The shell's `fg` continues the process.
"""

from __future__ import annotations

import signal

from ...common import system
from ...control import frames

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from ...common.loop import Loop, Timer
    from .node_connection import NodeConnection

HOLD_TIMEOUT = 0.5
"""Seconds for the nodes to acknowledge the suspension."""


class Suspension:
    """Stops this process once all nodes have acknowledged it, or `HOLD_TIMEOUT` has passed."""

    def __init__(
        self,
        loop: Loop,
        nodes: Callable[[], Collection[NodeConnection]],
        resumed: Callable[[], None],
    ) -> None:
        """Suspend the nodes that exist at that time; call `resumed` after the suspension."""
        self._loop = loop
        self._nodes = nodes
        self._resumed = resumed
        self._awaited: set[NodeConnection] | None = None
        self._timer: Timer | None = None

    def start(self) -> None:
        """Announce the suspension to the nodes."""
        if self._awaited is not None:
            return
        self._awaited = set()
        for node in self._nodes():
            self.on_connected(node)
        self._timer = self._loop.call_later(HOLD_TIMEOUT, self._sleep)

    def on_connected(self, node: NodeConnection) -> None:
        """Announce the suspension, if any, to a node that is connected."""
        if self._awaited is not None and node.connected:
            self._awaited.add(node)
            node.send(frames.pack(frames.SUSPEND, b"hold"))

    def on_granted(self, node: NodeConnection) -> None:
        """Record a node's acknowledgement."""
        if self._awaited is not None:
            self._awaited.discard(node)
            if not self._awaited:
                self._sleep()

    def _sleep(self) -> None:
        """Stop this process; once it is continued, tell the nodes to expect heartbeats again.

        Frames that others await may have arrived unread: the timers restart from here.
        """
        if self._awaited is None or self._timer is None:
            return
        self._timer.cancel()  # or it would shorten the wait of the next suspension
        self._awaited = None
        began = self._loop.clock()
        system.kill(system.getpid(), signal.SIGSTOP)
        self._loop.postpone(self._loop.clock() - began)
        self._resumed()
        for node in self._nodes():
            node.send(frames.pack(frames.SUSPEND, b"count"))
