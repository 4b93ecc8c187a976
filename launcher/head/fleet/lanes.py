"""Further node launchers on connected nodes, over the control lines of the first ones: lanes.

A run that finds a node in use gets a lane there: a connection like any other, whose bytes travel in
LANE frames. A lane waits for its node to connect. Lanes are lost with the first connection of their
node, and are kept for later runs.
"""

from __future__ import annotations

import signal
from itertools import count

from ...backends.causes import explain_end
from ...backends.stdio import SessionStream
from ...control import command_messages, frames, messages
from .events import NodeDisconnected, NodeEnded, NodeSent, NodeSilent
from .node_connection import ConnectionState, NodeConnection, Starting

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from .events import FleetEvent
    from .fleet import NodeFleet

BLOCK = 256 * 1024
"""The most bytes of a LANE frame."""


class LaneStream(SessionStream):
    """The stream of a lane; it has no descriptors, and its owner feeds it data.

    Attributes:
        on_arrival: called after new data, or the end of the stream.
    """

    def __init__(self, number: int, send: Callable[[bytes], None], *, held: bool = False) -> None:
        """Write to the lane with this number; frames are sent with `send`."""
        super().__init__(-1, -1, held=held)
        self.on_arrival: Callable[[], None] = lambda: None
        self._number = number
        self._send = send
        self._arrived = bytearray()
        self._ended = self._closed = False

    def feed(self, data: bytes) -> None:
        """Add data that has arrived; b"" marks the end."""
        if self._closed:
            return
        self._arrived += data
        self._ended = not data
        self.on_arrival()

    def close(self) -> None:
        """Close the lane, whose node launcher then leaves; may be called twice."""
        if not self._closed:
            self._closed = True
            self._send(frames.pack_numbered(frames.LANE, self._number))

    def _read(self) -> bytes:
        if not self._arrived and not self._ended:
            raise BlockingIOError
        data = bytes(self._arrived)
        self._arrived.clear()
        return data

    def _write(self, data: bytes) -> int:
        for at in range(0, len(data), BLOCK):
            block = data[at : at + BLOCK]
            self._send(frames.pack_numbered(frames.LANE, self._number, block))
        return len(data)


class FleetLane:
    """One lane, from its opening to the end of its process.

    Attributes:
        first: the connection that carries it.
        connection: the connection for a run; None once it has another lane.
    """

    def __init__(self, first: NodeConnection, connection: NodeConnection, number: int) -> None:
        self.first = first
        self.connection: NodeConnection | None = connection
        self.stream = LaneStream(number, first.send, held=bool(connection.lane))


class FleetLanes:
    """The lanes of a fleet."""

    def __init__(self, fleet: NodeFleet) -> None:
        self._fleet = fleet
        self._count = count(1)
        self._lanes: dict[int, FleetLane] = {}
        self._first_of: dict[NodeConnection, NodeConnection] = {}
        self._watched: set[NodeConnection] = set()
        self._unexplained: dict[NodeConnection, list[NodeConnection]] = {}
        self._awaiting: dict[NodeConnection, list[NodeConnection]] = {}
        fleet.services |= {
            frames.FROM_LANE: self._on_bytes,
            frames.LANE_SAID: self._on_errors,
            frames.LANE_ENDED: self._on_end,
        }

    @property
    def connections(self) -> list[NodeConnection]:
        """The connections over lanes that are open, or that a run still uses."""
        return list(self._first_of)

    def free(self, first: NodeConnection, entry: tuple[str, ...] = ()) -> NodeConnection:
        """Return a connection to a node that no run uses, over `first`.

        With the words of an `entry`, its node launcher runs in the container that they enter.
        """
        for connection, carrier in self._first_of.items():
            fits = carrier is first and connection.lane == entry
            if fits and connection.connected and connection.on_event is None:
                return connection
        connection = NodeConnection(first.origin, lane=entry)
        self._first_of[connection] = first
        self._open_or_wait(first, connection)
        return connection

    def first(self, connection: NodeConnection) -> NodeConnection:
        """Return the first connection of the node to which a lane leads."""
        return self._first_of[connection]

    def reach(self, connection: NodeConnection) -> None:
        """Open a lost lane again, if its node is connected; events report the outcome."""
        first = self._first_of[connection]
        connection.try_again()
        if connection.lane and first.state is ConnectionState.LOST and first.on_event is None:
            self._fleet.reach(first)  # no run does
        if first.state is ConnectionState.LOST:
            connection.close(first.lost)
            self._fleet.emit(NodeEnded(connection, first.lost))
        else:
            self._open_or_wait(first, connection)

    def _open_or_wait(self, first: NodeConnection, connection: NodeConnection) -> None:
        if first.connected:
            self._open(first, connection)
        else:
            self._awaiting.setdefault(first, []).append(connection)

    def on_first_connected(self, first: NodeConnection) -> None:
        """Open the lanes that were waiting for this connection."""
        for connection in self._awaiting.pop(first, ()):
            if connection.on_event is not None:
                self._open(first, connection)

    def set_aside(self, first: NodeConnection) -> None:
        """Kill the workers on a connection that has other users, and wait for their end."""
        first.on_event = self._on_aside
        first.send(messages.pack(frames.STOP, messages.Stop(signal.SIGKILL, 0.0)))

    def _on_aside(self, event: FleetEvent) -> None:
        match event:
            case NodeSent(node, frames.DONE, _):
                node.on_event = None
            case NodeDisconnected(node) | NodeSilent(node):
                node.on_event = None
                self._fleet.emit_loss(event)

    def remove_unused(self) -> None:
        """Forget lost lanes that no run uses."""
        for connection in self.connections:
            if not connection.connected and connection.on_event is None:
                del self._first_of[connection]

    def _open(self, first: NodeConnection, connection: NodeConnection) -> None:
        if first not in self._watched:
            self._watched.add(first)
            first.on_close.append(lambda reason: self._on_first_closed(first, reason))
        number = next(self._count)
        for lane in self._lanes.values():
            if lane.connection is connection:
                lane.connection = None
        self._lanes[number] = lane = FleetLane(first, connection, number)
        if connection.lane:
            opened = command_messages.OpenLane(number, connection.lane)
            first.send(messages.pack(frames.OPEN_LANE, opened))
            connection.starting = Starting(self._fleet.loop.awake())
        lane.stream.on_arrival = self._fleet.open(connection, lane.stream).receive

    # -- the end -----------------------------------------------------------------------------

    def _lane(self, first: NodeConnection, number: int) -> FleetLane:
        lane = self._lanes.get(number)
        if lane is None or lane.first is not first:
            raise frames.BadFrame(f"there is no lane {number}")
        return lane

    def _on_bytes(self, first: NodeConnection, body: bytes) -> None:
        number, data = frames.unpack_numbered(body)
        self._lane(first, number).stream.feed(data)

    def _on_errors(self, first: NodeConnection, body: bytes) -> None:
        """Keep what a container's client prints, to explain a lane that does not answer."""
        number, data = frames.unpack_numbered(body)
        connection = self._lane(first, number).connection
        if connection is not None:
            connection.starting.hear(data.decode("utf-8", "replace").removesuffix("\n"))

    def _on_end(self, first: NodeConnection, body: bytes) -> None:
        """Handle the end of a lane's process, and report the reason."""
        end = messages.unpack(command_messages.LaneEnd, body)
        lane = self._lane(first, end.id)
        lane.stream.feed(b"")
        del self._lanes[end.id]
        if lane.connection is not None:
            self._fleet.emit(NodeEnded(lane.connection, explain_end(end.code, end.errors)))
        self.remove_unused()

    def _on_first_closed(self, first: NodeConnection, reason: str) -> None:
        self._watched.discard(first)
        self._lanes = {n: lane for n, lane in self._lanes.items() if lane.first is not first}
        lost = [one for one in self.connections if self._first_of[one] is first and one.connected]
        self._unexplained[first] = lost
        for connection in lost:
            connection.cause = first.cause
            connection.close(reason)
            seconds = first.silence.seconds
            if seconds:
                self._fleet.emit(NodeSilent(connection, seconds, reason))
            else:
                ended = NodeDisconnected(connection, reason, "", direct=False, lost=reason)
                self._fleet.emit(ended)
        self.remove_unused()

    def on_first_ended(self, first: NodeConnection, cause: str) -> None:
        """Report the end of a node's session to the runs that lost a lane with it."""
        for connection in self._awaiting.pop(first, ()):
            connection.close(cause)
            self._unexplained.setdefault(first, []).append(connection)
        for connection in self._unexplained.pop(first, ()):
            if connection.on_event is not None:
                self._fleet.emit(NodeEnded(connection, cause))
