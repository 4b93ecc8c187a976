"""Heartbeats on a node: sends its own to the runner, and watches the runner's."""

from __future__ import annotations

from ...common import system
from ...control import frames, messages

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ...common.loop import Loop, Timer
    from ...control.connection import Connection


class Heartbeats:
    """Sends heartbeats, and measures the runner's silence.

    Attributes:
        lease: seconds of silence after which the runner counts as lost; 0 until known.
    """

    def __init__(self, loop: Loop, link: Connection, lost: Callable[[str], None]) -> None:
        """Wait for `beat`; `lost` is called with the reason when the runner is lost."""
        self.lease = 0.0
        self._loop = loop
        self._link = link
        self._lost = lost
        self._suspended = False
        self._timer: Timer | None = None
        self._due = 0.0

    @property
    def is_due(self) -> bool:
        """True if a heartbeat is overdue, as after a blocked loop."""
        return self.beating and self._loop.clock() >= self._due

    @property
    def beating(self) -> bool:
        """True if heartbeats are being sent."""
        return self._timer is not None

    def beat(self) -> None:
        """Send a heartbeat, check the runner's heartbeats, and repeat this at intervals.

        Heartbeats start with START, or with an earlier heartbeat of the runner. On a held node they
        start with the first JOB or command.
        """
        if not self._link.open:
            return
        silent = 0.0 if self._suspended else self._loop.clock() - self._link.last_received
        if silent >= self.lease:
            self._lost(f"no heartbeat from the runner for {silent:.0f} s")
            return
        self._link.send(frames.pack_beat(system.monotonic()))
        self._schedule(silent)

    def _schedule(self, silent: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        wait = min(self.lease / messages.BEATS, self.lease - silent)
        self._due = self._loop.clock() + wait
        self._timer = self._loop.call_later(wait, self.beat)

    def count_anew(self) -> None:
        """Restart the count of silence: older frames may still be unread."""
        self._link.last_received = self._loop.clock()
        if self._timer is not None:
            self._schedule(0.0)

    def on_lease(self, body: bytes) -> None:
        """Expect no heartbeats while the runner is suspended."""
        self._suspended = body == b"hold"
        if self._suspended:
            self._link.send(frames.pack(frames.SUSPEND, body))
