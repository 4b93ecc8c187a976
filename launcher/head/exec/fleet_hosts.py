"""Runs a command on hosts that only an engine reaches: connects a fleet for it."""

from __future__ import annotations

from ...backends.events import EngineEnded
from ...control.messages import End
from ..fleet.events import NodeConnected, NodeDisconnected, NodeEnded, NodeSilent
from .events import Command, HostFailed
from .node_commands import NodeCommands
from .ssh_hosts import NOT_READY, STOPPED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ..fleet.events import FleetEvent
    from ..fleet.fleet import Fleet
    from ..fleet.node_connection import NodeConnection
    from .events import HostEvent, OnEvent

LATE = "no answer in time (--start_timeout)"
"""The cause for hosts that were not connected in time."""


class FleetHosts:
    """The transport over node launchers; see `events.Transport`."""

    def __init__(self, fleet: Fleet, connect: Callable[[], None], timeout: float) -> None:
        """Prepare it.

        Args:
            fleet: the hosts.
            connect: starts to connect them.
            timeout: seconds for all of them to be connected.
        """
        self._names = {node: node.name for node in fleet.nodes.values()}
        self.hosts: Sequence[str] = list(self._names.values())
        self.on_event: OnEvent = _nothing
        self.on_room: Callable[[], None] = _nothing
        self._fleet = fleet
        self._connect = connect
        self._timeout = timeout
        self._commands = NodeCommands(fleet.commands, self._on_host, self._room)
        self._command = Command(())
        self._connecting = dict.fromkeys(self._names)
        self._connected: list[NodeConnection] = []
        self._begun = self._paused = False
        self._kept: list[Callable[[], None]] = []

    def start(self, command: Command) -> None:
        """Connect the nodes; the command begins when each is connected or has failed."""
        self._command = command
        self._fleet.lend(list(self._names), self._on_fleet)
        self._fleet.loop.call_later(self._timeout, self._give_up)
        self._connect()

    def send(self, data: bytes) -> None:
        """Send input to the hosts that read it."""
        self._commands.send(data)

    def backlog(self) -> int:
        """Return how many bytes of input the slowest host has yet to take."""
        return self._commands.unread if self._begun else NOT_READY

    def pause(self, paused: bool) -> None:
        """Let the hosts send no more output than a window, or continue."""
        self._paused = paused
        kept, self._kept = self._kept, []
        for taken in kept:
            self._taken(taken)

    def stop(self) -> None:
        """End the command; hosts that are not connected are given up."""
        for node in (*self._connecting, *(() if self._begun else self._connected)):
            self.on_event(HostFailed(node.name, STOPPED, began=False))
        self._connecting.clear()
        self._begun = True
        self._commands.stop()

    def close(self) -> None:
        """Have all node launchers exit."""
        self._fleet.close(End(0, ""))
        self._fleet.disconnect()

    def _on_fleet(self, event: FleetEvent) -> None:
        match event:
            case NodeConnected(node):
                self._arrived(node)
            case NodeEnded(node, cause) | NodeDisconnected(node, cause, _):
                self._failed(node, cause or node.lost or "its node launcher has exited")
            case NodeSilent(node, _):
                self._failed(node, node.lost)
            case EngineEnded(cause, _, _):
                for node in tuple(self._connecting):
                    self._failed(node, cause or node.lost)

    def _arrived(self, node: NodeConnection) -> None:
        if node in self._connecting:
            del self._connecting[node]
            self._connected.append(node)
            self._begin()

    def _failed(self, node: NodeConnection, cause: str) -> None:
        """Note that a node is not there; once the command runs there, its loss is reported so."""
        if node in self._connecting:
            del self._connecting[node]
            self.on_event(HostFailed(node.name, cause, began=False))
            self._begin()

    def _give_up(self) -> None:
        for node in tuple(self._connecting):
            self._failed(node, LATE)

    def _begin(self) -> None:
        if not self._connecting and not self._begun:
            self._begun = True
            self._commands.begin(self._connected, self._command)
            self.on_room()

    def _on_host(self, event: HostEvent, taken: Callable[[], None]) -> None:
        self.on_event(event)
        self._taken(taken)

    def _taken(self, taken: Callable[[], None]) -> None:
        if self._paused:
            self._kept.append(taken)
        else:
            taken()

    def _room(self) -> None:
        self.on_room()


def _nothing(*_: object) -> None:
    """Do nothing."""
