"""One node as the runner sees it, from before it is reached until its connection is closed."""

from __future__ import annotations

from enum import Enum

from ...control import frames

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ...control.connection import Connection
    from ...specs.plan import Node
    from .events import FleetEvent

MOST_NOTES = 1000
"""Lines for the user that a node may send between two beats of the runner's."""


class NodeState(Enum):
    """How far a node has come."""

    CONNECTING = "connecting"
    CONNECTED = "connected"
    LOST = "lost"


class NodeConnection:
    """A node launcher and the connection to it, whatever it runs.

    Attributes:
        origin: its node as the backend knows it, by whose rank it goes from first to last.
        state: whether there is a connection.
        lost: why there is none, "" while there is one or none has been tried.
        answered: it has said HELLO, so that it is worth waiting until it leaves.
        beats: it gives signs of life, as it has been started, so that its silence counts.
        unanswered: JOBs that it was sent and has not said HELLO to.
        used: how many runs it was part of.
        on_event: what acts on it: the run that it is part of; None between two runs.
        offset: what to add to its clock to get the runner's, in seconds; the smallest seen
            difference is the one with the least delay in it.
    """

    def __init__(self, node: Node) -> None:
        self.origin = node
        self.state = NodeState.CONNECTING
        self.lost = ""
        self.answered = self.beats = False
        self.unanswered = self.used = 0
        self.on_event: Callable[[FleetEvent], None] | None = None
        self.offset = float("inf")
        self._connection: Connection | None = None
        self._notes = 0

    @property
    def number(self) -> int:
        """The rank by which its backend knows it."""
        return self.origin.rank

    @property
    def name(self) -> str:
        """The host's name, as the user wrote it."""
        return self.origin.host.name

    @property
    def connected(self) -> bool:
        """Whether there is a connection."""
        return self.state is NodeState.CONNECTED

    def open(self, connection: Connection) -> None:
        """Use this connection from now on."""
        self.state, self.lost = NodeState.CONNECTED, ""
        self.answered = self.beats = False
        self.unanswered = 0
        self._connection = connection

    def close(self, reason: str) -> None:
        """Close the connection: a node launcher without one ends all that it has started."""
        connection, self._connection = self._connection, None
        self.state, self.lost = NodeState.LOST, reason
        if connection is not None:
            connection.close()

    def try_again(self) -> None:
        """Close the connection, and wait for another one."""
        self.close("")
        self.state = NodeState.CONNECTING

    def send(self, frame: bytes) -> None:
        """Send a frame, if there is a connection."""
        if self._connection is not None:
            self._connection.send(frame)

    def send_job(self, frame: bytes) -> None:
        """Send a JOB, which it will answer with HELLO."""
        self.unanswered += 1
        self.send(frame)

    def fault(self) -> str:
        """Return what it did that no node launcher does, "" for nothing."""
        return self._connection.fault if self._connection is not None else ""

    def heard(self) -> float | None:
        """Return when it was last heard on the loop's clock; None where its silence is no sign."""
        if self._connection is None or not self.beats:
            return None
        return self._connection.last_received

    def reset_silence(self, now: float) -> None:
        """Count its silence from now on."""
        if self._connection is not None:
            self._connection.last_received = now

    def reset_notes(self) -> None:
        """Count its lines for the user from none."""
        self._notes = 0

    def count_note(self) -> None:
        """Count a line for the user.

        Raises:
            BadFrame: there were too many since the last beat.
        """
        self._notes += 1
        if self._notes > MOST_NOTES:
            raise frames.BadFrame(f"more than {MOST_NOTES} notes at a time")

    def read_clock(self, clock: float, now: float) -> None:
        """Learn the offset of its clock from a message that carries it."""
        self.offset = min(self.offset, now - clock)
