"""The connected node launchers, which outlive single programs and are lent to runs."""

from __future__ import annotations

from functools import cached_property, partial

from ...backends.events import (
    BackendWarning,
    EngineEnded,
    EngineOutput,
    SessionEnded,
    SessionOutput,
    SessionsBegun,
    SessionStarted,
    TokenAnnounced,
)
from ...common import system
from ...common.errors import DsrunError
from ...common.event_queue import Remaining
from ...control import frames, messages
from ...control.connection import Connection
from .events import NodeConnected, NodeDisconnected, NodeEnded, NodeSent, NodeSilent
from .heartbeats import FleetHeartbeats
from .node_connection import ConnectionState, NodeConnection, Starting

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ...backends.base import Backend, DialBack, Part
    from ...backends.events import BackendEvent
    from ...common.loop import Loop
    from ...control.stream import FrameStream
    from ...specs.plan import Node
    from .commands import FleetCommands
    from .events import FleetEvent
    from .lanes import FleetLanes
    from .node_queries import NodeQueries
    from .suspension import Suspension

HANG_UP = 2.0
"""Seconds for node launchers to exit after END."""

FROM_NODES = (
    *(frames.HELLO, frames.PROBED, frames.OUTPUT, frames.STARTED, frames.EXIT, frames.NOTE),
    *(frames.WAITS, frames.OPENED, frames.PORTS, frames.SUSPEND, frames.BEAT, frames.INPUT_ACK),
    *(frames.DONE, frames.SHARD_REQUEST, frames.BINDINGS, frames.READY, frames.AGENT_FAILED),
    *(frames.RANKS, frames.FINISHED, frames.FROM_LANE, frames.LANE_SAID, frames.LANE_ENDED),
    *(frames.EXEC_OUTPUT, frames.EXEC_EXIT, frames.EXEC_TOOK, frames.REPLY, frames.REACHED),
    frames.ACTIVITY,
)
"""Frames that an authenticated node launcher may send."""


class NodeFleet:
    """Connects nodes, watches their heartbeats, reconnects them, and closes the connections.

    Attributes:
        nodes: all nodes, by the rank that the backends use.
        lease: seconds without a heartbeat after which a node is lost.
        on_token: called with the rank, name and token of each node launcher that announces itself.
        on_idle: called with the events, except frames, of nodes that no run uses.
        services: handlers of the kinds of frames that do not concern runs.
        engine_end: the end of the engine that started the nodes; None while it runs.
    """

    def __init__(
        self,
        nodes: Sequence[Node],
        loop: Loop,
        log: Callable[[str, str], None],
        lease: float,
        backend_for: Callable[[Node], Part] | None = None,
        *,
        shares: bool = False,
    ) -> None:
        """Prepare a fleet; `connect` starts its nodes.

        Args:
            nodes: the nodes that this process connects.
            loop: the event loop.
            log: prints a message for the user, given its text and level.
            lease: seconds without a heartbeat after which a node is lost.
            backend_for: returns the backend for a node that is added later; None if none may be
                added.
            shares: whether several runs can use a node at a time.
        """
        self.nodes = {node.rank: NodeConnection(node) for node in nodes}
        self._by_host = {_key(node.origin): node for node in self.nodes.values()}
        self.loop = loop
        self.on_token: Callable[[int, str, str], None] = lambda _rank, _name, _token: None
        self.on_idle: Callable[[FleetEvent], None] = lambda _event: None
        self.services: dict[int, Callable[[NodeConnection, bytes], None]] = {}
        self.engine_end: EngineEnded | None = None
        self._log, self.lease = log, lease
        self._backend_for = backend_for
        self._backends: dict[int, Backend] = {}
        self._dial: DialBack | None = None
        self._closing = False
        self._heartbeats = FleetHeartbeats(loop, lease, self._all, self._lose_silent, log)
        self._suspension: Suspension | None = None
        self._runs: list[Callable[[FleetEvent], None]] = []
        self._awaited = Remaining(self._all, lambda node: not (node.connected and node.answered))
        self._lanes: FleetLanes | None = None
        if shares:
            from .lanes import FleetLanes

            self._lanes = FleetLanes(self)

    # -- users of the fleet -------------------------------------------------------------------

    def lend(self, nodes: Sequence[NodeConnection], on_event: Callable[[FleetEvent], None]) -> None:
        """Lend nodes to a run: `on_event` gets their events, and their engine's events."""
        self._runs.append(on_event)
        for node in nodes:
            self.lend_more(node, on_event)

    def lend_more(self, node: NodeConnection, on_event: Callable[[FleetEvent], None]) -> None:
        """Lend one more node to a run."""
        node.on_event = on_event
        node.used += 1

    def take_back(self, on_event: Callable[[FleetEvent], None]) -> None:
        """Take back the nodes that were lent to a run."""
        self._runs.remove(on_event)
        for node in self.connections:
            if node.on_event == on_event:
                node.on_event, node.returns = None, False
        if self._lanes is not None:
            self._lanes.remove_unused()

    # -- connections ------------------------------------------------------------------------

    def connect(self, parts: Sequence[Part], dial: DialBack | None = None) -> None:
        """Start the nodes with their backends.

        Args:
            parts: each backend with the nodes that it starts.
            dial: the address that node launchers dial, for the backends that need it.
        """
        self._dial = dial
        for backend, nodes in parts:
            self._backends |= {node.rank: backend for node in nodes}
        for backend, nodes in parts:
            backend.start(nodes, self.loop, partial(self._on_attempt, 0), dial)

    def add(self, node: Node) -> NodeConnection:
        """Add a node, and return its connection; `reach` starts it."""
        self.nodes[node.rank] = self._by_host[_key(node)] = NodeConnection(node)
        return self.nodes[node.rank]

    def reach(self, node: NodeConnection) -> None:
        """Start the node launcher of a lost or an added node; events report the outcome."""
        if node.lane is not None and self._lanes is not None:
            self._lanes.reach(node)
            return
        node.try_again()
        try:
            backend = self._backend(node)
            if self._dial is not None and backend.transport == "dial":
                self._dial.again(node.number)
            emit = partial(self._on_attempt, node.attempt)
            backend.start([node.origin], self.loop, emit, self._dial)
        except DsrunError as error:
            self.on_session_end(node.number, str(error))

    def _backend(self, node: NodeConnection) -> Backend:
        if node.number not in self._backends:
            assert self._backend_for is not None
            self._backends[node.number] = self._backend_for(node.origin).backend
        return self._backends[node.number]

    @cached_property
    def node_queries(self) -> NodeQueries:
        """The queries to the nodes about their machines; imported for the first query."""
        from .node_queries import NodeQueries

        return NodeQueries(self, self._log)

    @cached_property
    def commands(self) -> FleetCommands:
        """The commands on the nodes, beside runs; imported for the first command."""
        from .commands import FleetCommands

        return FleetCommands(self)

    def isolate(self, node: NodeConnection, reason: str) -> None:
        """Keep other runs off a connection whose last run left workers on the node.

        The connection is closed, and the node then ends the workers. If something else uses the
        connection, it stays open, and is set aside until the workers have ended.
        """
        if node.on_close and self._lanes is not None:
            self._lanes.set_aside(node)
        else:
            node.close(reason)

    @property
    def names(self) -> str:
        """The names of the nodes, for messages."""
        return ", ".join(node.name for node in self.nodes.values())

    def find(self, node: Node, entry: tuple[str, ...] = ()) -> NodeConnection | None:
        """Return a connection to a plan's node, found by host name, or None.

        If a run uses the node, and the fleet `shares` its nodes, return a further connection to it.
        Do so as well if the run needs a node launcher in a container, entered by the words of
        `entry`.
        """
        known = self._by_host.get(_key(node))
        if known is None or self._lanes is None or not (entry or known.on_event is not None):
            return known
        given_up = known.state is ConnectionState.LOST and not known.returns
        return known if given_up and not entry else self._lanes.free(known, entry)

    @property
    def connections(self) -> list[NodeConnection]:
        """All connections: those over lanes, then the first one of each node."""
        return [*self._over_lanes, *self.nodes.values()]

    @property
    def _over_lanes(self) -> list[NodeConnection]:
        return [] if self._lanes is None else self._lanes.connections

    def _all(self) -> list[NodeConnection]:
        """Return all connections; lanes come after the first connection of their node."""
        return [*self.nodes.values(), *self._over_lanes]

    def close_at_once(self) -> None:
        """Close all connections and backends at once."""
        self._closing = True
        self._heartbeats.stop()
        for node in self.connections:
            node.close("the runner has disconnected")
        for backend in dict.fromkeys(self._backends.values()):
            backend.close()

    # -- events of backends -----------------------------------------------------------------

    def _on_attempt(self, attempt: int, event: BackendEvent) -> None:
        """Handle an event of a backend, unless it comes from a session that has been replaced."""
        sessions = SessionStarted, SessionEnded
        if isinstance(event, sessions) and self.nodes[event.rank].attempt != attempt:
            if isinstance(event, SessionStarted):
                event.stream.close()
            return
        self.on_backend_event(event)

    def on_backend_event(self, event: BackendEvent) -> None:
        """Handle an event of a backend."""
        match event:
            case SessionStarted(rank, stream):
                self.on_stream(rank, stream)
            case SessionEnded(rank, cause):
                self.on_session_end(rank, cause)
            case TokenAnnounced():
                self.nodes[event.rank].starting.announced = True
                self.on_token(*event)
            case SessionsBegun(ranks):
                for rank in ranks:
                    self.nodes[rank].starting = Starting(self.loop.awake())
            case SessionOutput(rank, text):
                self.nodes[rank].starting.hear(text)
            case BackendWarning(text):
                self._log(text, "warning")
            case EngineEnded():
                self.engine_end = event
                self._emit_to_runs(event)
            case EngineOutput():
                self._emit_to_runs(event)

    def _emit_to_runs(self, event: FleetEvent) -> None:
        for on_event in tuple(self._runs):
            on_event(event)

    def on_stream(self, rank: int, stream: FrameStream) -> None:
        """Use this stream as the connection to a node."""
        self.nodes[rank].starting = Starting(self.loop.awake())
        self.open(self.nodes[rank], stream)

    def open(self, node: NodeConnection, stream: FrameStream) -> Connection:
        """Use this stream for this node; return the connection that serves it."""
        stream.limit(frames.NODE_LIMIT)
        handlers = {kind: partial(self._on_frame, node, kind) for kind in FROM_NODES}
        opened = Connection(self.loop, stream, handlers, lambda why: self._on_disconnect(node, why))
        node.open(opened)
        if self._suspension is not None:
            self._suspension.on_connected(node)
        self.emit(NodeConnected(node))
        if self._lanes is not None:
            self._lanes.on_first_connected(node)
        return opened

    def on_session_end(self, rank: int, cause: str) -> None:
        """Handle the end of a node's session, with the backend's cause."""
        node = self.nodes[rank]
        if node.state is ConnectionState.CONNECTING:
            node.close(cause)
        elif node.connected:
            node.cause = cause
        self.emit(NodeEnded(node, cause))
        if self._lanes is not None:
            self._lanes.on_first_ended(node, cause)

    def emit(
        self, event: NodeConnected | NodeSent | NodeDisconnected | NodeSilent | NodeEnded
    ) -> None:
        """Emit an event to the run that uses the node, or to `on_idle` if none does."""
        if event.node.on_event is not None:
            event.node.on_event(event)
        elif event.node.lane is None:
            self.on_idle(event)

    # -- frames of nodes --------------------------------------------------------------------

    def _on_frame(self, node: NodeConnection, kind: int, body: bytes) -> None:
        """Handle a frame. This is a boundary: bad data of a node ends only its connection.

        Raises:
            BadFrame: the frame is invalid, or its handler failed for any reason.
            DsrunError: the run cannot continue.
        """
        try:
            self._handle(node, kind, body)
        except (frames.BadFrame, DsrunError):
            raise
        except Exception as error:
            from ...common.unexpected import unexpected

            raise frames.BadFrame(unexpected(error, self._log)) from None

    def _handle(self, node: NodeConnection, kind: int, body: bytes) -> None:
        if kind in self.services:
            self.services[kind](node, body)
            return
        if kind == frames.SUSPEND:
            if self._suspension is not None:
                self._suspension.on_granted(node)
            return
        if kind == frames.BEAT:
            node.unconfirmed = False
            node.read_clock(frames.unpack_beat(body), self.loop.clock())
        elif kind == frames.HELLO:
            node.answered = True
            node.unanswered -= 1
        if node.on_event is not None and not self._is_late(node, kind):
            node.on_event(NodeSent(node, kind, body))
        elif node.on_event is None and kind == frames.NOTE:
            self._on_idle_note(node, body)

    def _is_late(self, node: NodeConnection, kind: int) -> bool:
        """Return whether a frame belongs to an earlier run, or answers a JOB that was replaced.

        Such frames come before the HELLO that answers this run's JOB.
        """
        early = frames.BEAT, frames.WAITS
        return node.used > 1 and node.unanswered > 0 and kind not in early

    def _on_idle_note(self, node: NodeConnection, body: bytes) -> None:
        """Print a note of a node that no run uses, such as the last note before it exits."""
        note = messages.unpack(messages.Note, body)
        node.count_note()
        self._log(f"{node.name}: {note.text}", "warning")

    def _on_disconnect(self, node: NodeConnection, reason: str) -> None:
        fault = node.fault()
        lost = fault or node.cause or f"the connection to its node launcher ended ({reason})"
        if self._closing:
            node.close(lost)
            self._stop_when_alone()
        else:
            self._lose(NodeDisconnected(node, reason, fault, self._dial is not None, lost))

    def _lose(self, event: NodeDisconnected | NodeSilent) -> None:
        """Close a connection, and report the loss to the run that used it.

        The callbacks of the closing may end that run. They may also lend the node to another run,
        which then already knows of the loss.
        """
        node, user = event.node, event.node.on_event
        node.close(event.lost)
        if node.on_event is None:
            self.emit_loss(event)
        elif user is not None:
            user(event)

    def emit_loss(self, event: NodeDisconnected | NodeSilent) -> None:
        """Emit a loss to the run that uses the node, or log it if none does."""
        if event.node.on_event is None and event.node.lane is None:
            self._log(f"lost {event.node.name}: {event.lost}", "warning")
        self.emit(event)

    # -- heartbeats -------------------------------------------------------------------------

    def expect_beats(self, node: NodeConnection) -> None:
        """Start to expect heartbeats of a node, which has been sent START."""
        node.beats = True
        node.reset_silence(self.loop.clock())

    def watch(self) -> None:
        """Start to send heartbeats to all nodes, and to check theirs."""
        self._heartbeats.start()

    def is_doubtful(self, node: NodeConnection) -> bool:
        """Return whether a node may be lost: it has been silent for long, or is not connected."""
        heard = node.heard()
        silent = heard is not None and self.loop.clock() - heard >= self.lease / 2
        return silent or not node.connected

    def _lose_silent(self, node: NodeConnection, seconds: float) -> None:
        """Lose a silent node; a lane of a silent node is lost together with the node, not here."""
        if (
            node.lane is not None
            and self._lanes is not None
            and self.is_doubtful(self._lanes.first(node))
        ):
            return
        node.silence = node.silence._replace(seconds=seconds)
        reason = f"no heartbeat for {seconds:.0f} s"
        if node.silence.together:
            here = system.uname().nodename
            reason += (
                f", nor from any other node: the network of {here}, where dsrun runs, has failed"
            )
        self._lose(NodeSilent(node, seconds, reason))

    def suspend(self) -> None:
        """Suspend this process, for Ctrl-Z."""
        if self._suspension is None:
            from .suspension import Suspension

            self._suspension = Suspension(self.loop, self._all, self._heartbeats.count_anew)
        self._suspension.start()

    def _send_all(self, frame: bytes) -> None:
        for node in self.connections:
            node.send(frame)

    # -- the end ----------------------------------------------------------------------------

    def close(self, end: messages.SessionEnd) -> None:
        """Send END to every node launcher, and wait at most `HANG_UP` seconds for them to exit."""
        self._closing = True
        self._heartbeats.stop()
        self._send_all(messages.pack(frames.END, end))
        if self._awaited:
            late = self.loop.call_later(HANG_UP, self.loop.stop)
            self.loop.run()
            late.cancel()

    def _stop_when_alone(self) -> None:
        if not self._awaited:
            self.loop.stop()


def _key(node: Node) -> tuple[str, int | None]:
    return node.host.name, node.share.local_rank if node.share else None
