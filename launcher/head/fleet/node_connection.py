"""The runner's connection to one node, from before it is reached until it is closed."""

from __future__ import annotations

from enum import Enum

from ...common.values import NamedTuple
from ...control import frames

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ...control.connection import Connection
    from ...control.stream import FrameStream
    from ...specs.plan import Node
    from .events import FleetEvent

KEPT = 1000
"""Characters of what its session has printed that explain why there is no node launcher."""

MOST_NOTES = 1000
"""Notes that a node may send between two heartbeats of the runner."""


class ConnectionState(Enum):
    """The state of a node's connection."""

    CONNECTING = "connecting"
    CONNECTED = "connected"
    LOST = "lost"


class Starting:
    """How far the start of a node launcher has come.

    Attributes:
        begun: since when it is being started, on a clock that does not count the time in which this
            process was stopped; infinity before that.
        announced: whether it has announced a token, with which it dials.
        line: its control line, None while there is none.
    """

    def __init__(self, begun: float = float("inf")) -> None:
        self.begun, self.announced = begun, False
        self.line: FrameStream | None = None
        self._heard = ""

    def hear(self, text: str) -> None:
        """Keep a line that its session, which is no stream, has printed."""
        self._heard = f"{self._heard}{text}\n"[-KEPT:]

    @property
    def said(self) -> str:
        """The end of what its session has printed so far, without what its node launcher has."""
        printed = self.line.noise + self.line.errors if self.line is not None else b""
        return self._heard + printed[-KEPT:].decode("utf-8", "replace")

    @property
    def mute_since(self) -> float | None:
        """Since when there is a session, and no sign of a node launcher; None if there was one."""
        if self.announced or (self.line is not None and self.line.spoke):
            return None
        return self.begun if self.line is None else max(self.begun, self.line.begun)


class Silence(NamedTuple):
    """How a node was silent when it was lost.

    Attributes:
        seconds: for how long, 0.0 if that is not why it was lost.
        together: the names of all nodes, if it and they have fallen silent at the same moment.
    """

    seconds: float = 0.0
    together: frozenset[str] = frozenset()


class NodeConnection:
    """A node launcher and the connection to it, independent of runs.

    Attributes:
        origin: its node as the backend knows it; its rank never changes.
        is_lane: whether it is a further connection to the node, over the first one's.
        state: whether there is a connection.
        attempt: how often it was reached again; what becomes of earlier sessions does not count.
        lost: why there is none, "" while there is one or none has been tried.
        cause: why its session has ended, if the backend knows that before the connection ends.
        answered: whether it has sent HELLO, so that its exit is worth waiting for.
        beats: whether it has been sent START, so that heartbeats are expected.
        unanswered: how many JOBs it has not answered with HELLO yet.
        unconfirmed: whether it owes a heartbeat for a JOB, which a node that sends them at all
            sends before its checks.
        silence: how it was silent when it was lost.
        used: how many runs it was part of.
        returns: whether the run that uses it has it reached again once it is lost.
        on_event: the event handler of the run that uses it; None between two runs.
        on_close: each is called once, with the reason, when its connection is closed.
        starting: how far the start of its node launcher has come.
        offset: seconds to add to its clock to get the runner's; the smallest difference seen is
            the one with the least network delay in it.
    """

    def __init__(self, node: Node, *, is_lane: bool = False) -> None:
        self.origin = node
        self.is_lane = is_lane
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
        """The rank by which its backend knows it."""
        return self.origin.rank

    @property
    def name(self) -> str:
        """The host's name, as the user wrote it."""
        return self.origin.host.name

    @property
    def connected(self) -> bool:
        """Whether there is a connection."""
        return self.state is ConnectionState.CONNECTED

    def open(self, connection: Connection) -> None:
        """Use this connection from now on."""
        self.state, self.lost, self.cause = ConnectionState.CONNECTED, "", ""
        self.answered = self.beats = self.unconfirmed = False
        self.unanswered, self.silence = 0, Silence()
        self._connection, self.starting.line = connection, connection.line

    def close(self, reason: str) -> None:
        """Close the connection; a node launcher without one ends everything it has started."""
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
        """Send a JOB, which it will answer with HELLO."""
        self.unanswered += 1
        self.send(frame)

    def fault(self) -> str:
        """Return how it violated the protocol, "" if it did not."""
        return self._connection.fault if self._connection is not None else ""

    def heard(self) -> float | None:
        """Return when a frame last arrived, on the loop's clock; None if no heartbeats are due."""
        if self._connection is None or not self.beats:
            return None
        return self._connection.last_received

    def reset_silence(self, now: float) -> None:
        """Treat it as heard from just now."""
        if self._connection is not None:
            self._connection.last_received = now

    def reset_notes(self) -> None:
        """Reset the count of its notes."""
        self._notes = 0

    def count_note(self) -> None:
        """Count a note for the user.

        Raises:
            BadFrame: there were too many since the last heartbeat.
        """
        self._notes += 1
        if self._notes > MOST_NOTES:
            raise frames.BadFrame(f"more than {MOST_NOTES} notes at a time")

    def read_clock(self, clock: float, now: float) -> None:
        """Update the offset of its clock from a message that carries its time."""
        self.offset = min(self.offset, now - clock)
