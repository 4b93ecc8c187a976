"""The runner's connection to one node, from before it is reached until it is closed."""

from __future__ import annotations

from enum import Enum

from ...common.records import NamedTuple
from ...control import frames

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ...control.connection import Connection
    from ...control.stream import FrameStream
    from ...specs.plan import Node
    from .events import FleetEvent

KEPT = 1000
"""Characters of a session's output that are kept to explain a missing node launcher."""

MOST_NOTES = 1000
"""Notes that a node may send between two heartbeats of the runner."""


class ConnectionState(Enum):
    """The state of a node's connection."""

    CONNECTING = "connecting"
    CONNECTED = "connected"
    LOST = "lost"


class Starting:
    """The progress of the start of a node launcher.

    Attributes:
        begun: the time of the start, on a clock that excludes the time in which this process was
            stopped; infinity before the start.
        announced: whether the node launcher has announced the token with which it dials.
        line: the control line; None before there is one.
    """

    def __init__(self, begun: float = float("inf")) -> None:
        self.begun, self.announced = begun, False
        self.line: FrameStream | None = None
        self._heard = ""

    def hear(self, text: str) -> None:
        """Keep a line printed by a session that is not a stream."""
        self._heard = f"{self._heard}{text}\n"[-KEPT:]

    @property
    def said(self) -> str:
        """The end of the session's output, without lines of the node launcher."""
        printed = self.line.noise + self.line.errors if self.line is not None else b""
        return self._heard + printed[-KEPT:].decode("utf-8", "replace")

    @property
    def mute_since(self) -> float | None:
        """The start of a session without a sign of its node launcher; None after a first sign."""
        if self.announced or (self.line is not None and self.line.spoke):
            return None
        return self.begun if self.line is None else max(self.begun, self.line.begun)


class Silence(NamedTuple):
    """The silence of a node that was lost.

    Attributes:
        seconds: its length; 0.0 if silence was not the reason for the loss.
        together: the names of all nodes, if all fell silent at one moment.
    """

    seconds: float = 0.0
    together: frozenset[str] = frozenset()


class NodeConnection:
    """A node launcher and the connection to it, independent of runs.

    Attributes:
        origin: the node as the backend knows it; its rank never changes.
        lane: for a further connection through the node's first one: the words with which its
            command enters a container, () for none. None for the first connection.
        state: whether the node is connected.
        attempt: the number of reconnections; events of earlier sessions are ignored.
        lost: why there is no connection; "" while there is one, or none has been tried.
        cause: the reason for the end of the session, if the backend reports it before the
            connection ends.
        answered: whether the node has sent HELLO, and its exit is worth waiting for.
        beats: whether the node has been sent START, and heartbeats are expected.
        unanswered: the number of JOBs that the node has not answered with HELLO yet.
        unconfirmed: whether the node has yet to send the heartbeat that confirms a JOB before its
            checks.
        silence: the silence that was the reason for the loss.
        used: the number of runs so far that used the connection.
        returns: whether the run that uses the node has it reached again after a loss.
        on_event: the event handler of the run that uses the node; None between two runs.
        on_close: each is called once, with the reason, when the connection is closed.
        starting: the progress of the start of the node launcher.
        offset: seconds to add to the node's clock to get the runner's. The smallest difference seen
            so far has the least network delay in it.
    """

    def __init__(self, node: Node, *, lane: tuple[str, ...] | None = None) -> None:
        self.origin = node
        self.lane = lane
        self.state = ConnectionState.CONNECTING
        self.lost = self.cause = ""
        self.answered = self.beats = self.returns = self.unconfirmed = False
        self.silence = Silence()
        self.attempt = self.unanswered = self.used = 0
        self.on_event: Callable[[FleetEvent], None] | None = None
        self.on_close: list[Callable[[str], None]] = []
        self.offset = float("inf")
        self.starting = Starting()
        self._connection: Connection | None = None
        self._notes = 0

    @property
    def number(self) -> int:
        """The rank that the backend uses for the node."""
        return self.origin.rank

    @property
    def name(self) -> str:
        """The host's name, as the user wrote it."""
        return self.origin.host.name

    @property
    def connected(self) -> bool:
        """True if there is a connection."""
        return self.state is ConnectionState.CONNECTED

    def open(self, connection: Connection) -> None:
        """Use this connection from now on."""
        self.state, self.lost, self.cause = ConnectionState.CONNECTED, "", ""
        self.answered = self.beats = self.unconfirmed = False
        self.unanswered, self.silence = 0, Silence()
        self._connection, self.starting.line = connection, connection.line

    def close(self, reason: str) -> None:
        """Close the connection, which makes the node launcher end everything it has started."""
        connection, self._connection = self._connection, None
        self.starting.line = None
        self.state, self.lost = ConnectionState.LOST, reason
        if connection is not None:
            connection.close()
            told, self.on_close = self.on_close, []
            for tell in told:
                tell(reason)

    def try_again(self) -> None:
        """Close the connection, and wait for a new one."""
        self.close("")
        self.attempt += 1
        self.state = ConnectionState.CONNECTING

    def send(self, frame: bytes) -> None:
        """Send a frame, if there is a connection."""
        if self._connection is not None:
            self._connection.send(frame)

    def send_job(self, frame: bytes) -> None:
        """Send a JOB, which the node will answer with HELLO."""
        self.unanswered += 1
        self.send(frame)

    def fault(self) -> str:
        """Return the node's violation of the protocol; "" if there was none."""
        return self._connection.fault if self._connection is not None else ""

    def heard(self) -> float | None:
        """Return when a frame last arrived, on the loop's clock; None if no heartbeats are due."""
        if self._connection is None or not self.beats:
            return None
        return self._connection.last_received

    def reset_silence(self, now: float) -> None:
        """Treat the node as heard from just now."""
        if self._connection is not None:
            self._connection.last_received = now

    def reset_notes(self) -> None:
        """Reset the count of the node's notes."""
        self._notes = 0

    def count_note(self) -> None:
        """Count a note for the user.

        Raises:
            BadFrame: there were too many notes since the last heartbeat.
        """
        self._notes += 1
        if self._notes > MOST_NOTES:
            raise frames.BadFrame(f"more than {MOST_NOTES} notes at a time")

    def read_clock(self, clock: float, now: float) -> None:
        """Update the clock's offset from a message that carries the node's time."""
        self.offset = min(self.offset, now - clock)
