"""Ctrl-Z: the nodes are told before this process sleeps, so that nobody counts its silence."""

from __future__ import annotations

import os
import signal

from ...control import frames

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...common.loop import Loop
    from ..fleet.node_connection import Peer

HOLD_TIMEOUT = 0.5
"""Seconds for the nodes to answer that the runner may be silent."""


class Suspension:
    """Suspends this process as Ctrl-Z asks, once every node has granted it or had its time to."""

    def __init__(self, loop: Loop, peers: Sequence[Peer]) -> None:
        self._loop = loop
        self._peers = peers
        self._awaited: set[Peer] | None = None

    def begin(self) -> None:
        """Ask the nodes for it."""
        if self._awaited is not None:
            return
        self._awaited = {peer for peer in self._peers if peer.link is not None}
        for peer in self._peers:
            peer.send(frames.pack(frames.LEASE, b"hold"))
        self._loop.after(HOLD_TIMEOUT, self._sleep)

    def granted(self, peer: Peer) -> None:
        """Take in a node's answer."""
        if self._awaited is not None:
            self._awaited.discard(peer)
            if not self._awaited:
                self._sleep()

    def _sleep(self) -> None:
        """Stop this process until somebody continues it, and tell the nodes then."""
        if self._awaited is None:
            return
        self._awaited = None
        os.kill(os.getpid(), signal.SIGSTOP)
        for peer in self._peers:
            peer.count_silence(self._loop.clock())
            peer.send(frames.pack(frames.LEASE, b"count"))
