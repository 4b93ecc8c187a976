"""Ctrl-Z: the nodes are told before this process sleeps, so that none counts its silence."""

from __future__ import annotations

import os
import signal

from ...control import frames

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection

    from ...common.loop import Loop, Timer
    from .node_connection import NodeConnection

HOLD_TIMEOUT = 0.5
"""Seconds for the nodes to answer that the runner may be silent."""


class Suspension:
    """Suspends this process as Ctrl-Z asks, once every node has granted it or had its time to."""

    def __init__(self, loop: Loop, nodes: Collection[NodeConnection]) -> None:
        self._loop = loop
        self._nodes = nodes
        self._awaited: set[NodeConnection] | None = None
        self._timer: Timer | None = None

    def begin(self) -> None:
        """Ask the nodes for it."""
        if self._awaited is not None:
            return
        self._awaited = {node for node in self._nodes if node.connected}
        for node in self._nodes:
            node.send(frames.pack(frames.LEASE, b"hold"))
        self._timer = self._loop.call_later(HOLD_TIMEOUT, self._sleep)

    def on_granted(self, node: NodeConnection) -> None:
        """Count a node's answer."""
        if self._awaited is not None:
            self._awaited.discard(node)
            if not self._awaited:
                self._sleep()

    def _sleep(self) -> None:
        """Stop this process until somebody continues it, and tell the nodes then."""
        if self._awaited is None or self._timer is None:
            return
        self._timer.cancel()  # or it would cut short the time for answers to the next one
        self._awaited = None
        os.kill(os.getpid(), signal.SIGSTOP)
        for node in self._nodes:
            node.reset_silence(self._loop.clock())
            node.send(frames.pack(frames.LEASE, b"count"))
