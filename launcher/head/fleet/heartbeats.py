"""The runner's heartbeats to all nodes, and its watch on theirs."""

from __future__ import annotations

from ...control import frames, messages
from .node_connection import Silence

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from ...common.loop import Loop
    from .node_connection import NodeConnection

CHECKS = 300.0
"""Seconds beyond the lease for which a node may be silent during the checks of a JOB."""


class FleetHeartbeats:
    """Sends heartbeats to all nodes, and measures the silence of each."""

    def __init__(
        self,
        loop: Loop,
        lease: float,
        nodes: Callable[[], Collection[NodeConnection]],
        silent: Callable[[NodeConnection, float], None],
        log: Callable[[str, str], None],
    ) -> None:
        """Wait for `start`.

        Args:
            loop: runs the timers.
            lease: seconds of silence after which a node is lost.
            nodes: returns the connected nodes.
            silent: called with each lost node and its seconds of silence.
            log: prints a message for the user, given its text and level.
        """
        self._loop, self._lease, self._nodes = loop, lease, nodes
        self._silent, self._log = silent, log
        self._due = 0.0
        self._begun = self._ended = False

    def start(self) -> None:
        """Start to send heartbeats, and to check the nodes' heartbeats."""
        if not self._begun:
            self._begun = True
            self._due = self._loop.clock()
            self._beat()

    def stop(self) -> None:
        """Stop sending heartbeats."""
        self._ended = True

    def count_anew(self) -> None:
        """Restart the count of silence for all nodes: frames may have arrived unread."""
        self._due = self._loop.clock()
        for node in self._nodes():
            node.reset_silence(self._due)

    def _beat(self) -> None:
        if self._ended:
            return
        now = self._loop.clock()
        self._forgive(now - self._due)
        self._compare(now)
        for node in self._nodes():
            node.reset_notes()
            heard = node.heard()
            checks = node.unanswered and not node.unconfirmed
            patience = self._lease + CHECKS * bool(checks)
            if heard is not None and now - heard >= patience:
                self._silent(node, now - heard)
            node.send(frames.pack(frames.BEAT))
        self._due = now + self._wait(now)
        self._loop.call_later(self._due - now, self._beat)

    def _compare(self, now: float) -> None:
        """Record on all nodes whether they seem to have fallen silent at one moment.

        Each node sends sixteen heartbeats per lease, not at the same times as the others.
        """
        silent = {node: now - at for node in self._nodes() if (at := node.heard()) is not None}
        least = self._lease * (1 - 2 / messages.BEATS)
        names = frozenset(node.name for node in silent)
        every = min(silent.values(), default=0.0) >= least
        for node in silent:
            if not every:
                node.silence = Silence()
            elif len(names) > 1:  # of two nodes, one may be lost already
                node.silence = Silence(together=node.silence.together or names)

    def _wait(self, now: float) -> float:
        """Return the seconds until the next heartbeat, or until some node may be lost."""
        last = [heard for node in self._nodes() if (heard := node.heard()) is not None]
        left = min(last, default=now) + self._lease - now
        return min(self._lease / messages.BEATS, left) if left > 0 else self._lease / messages.BEATS

    def _forgive(self, late: float) -> None:
        """Restart the timeouts of all nodes if this process itself was late by half a lease."""
        if late >= self._lease / 2:
            text = f"dsrun itself was busy or stopped for {late:.0f} s"
            self._log(f"{text}; the nodes' timeouts restart", "warning")
            self.count_anew()
