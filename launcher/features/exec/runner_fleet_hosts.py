"""Runs a command on hosts that only an engine reaches, over a separate fleet."""

from __future__ import annotations

from ...control.messages import SessionEnd
from .runner_events import HostCommand, HostFailed
from .runner_fleet_connect import FleetConnect
from .runner_node_commands import NodeCommands
from .runner_ssh_hosts import NOT_READY, STOPPED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ...head.fleet.fleet import NodeFleet
    from ...head.fleet.node_connection import NodeConnection
    from .runner_events import HostEvent, OnEvent


EXPLAINED_WITHIN = 1.0
"""Seconds for a backend to explain the end of a session, which it may know only after a moment."""


class FleetHosts:
    """The transport over node launchers; see `runner_events.Transport`."""

    def __init__(self, fleet: NodeFleet, connect: Callable[[], None], timeout: float) -> None:
        """Prepare to connect.

        Args:
            fleet: the hosts.
            connect: starts to connect the nodes.
            timeout: seconds for all nodes to connect.
        """
        self._fleet_connect = FleetConnect(fleet, connect, timeout)
        self.hosts: Sequence[str] = [node.name for node in self._fleet_connect.nodes]
        self.on_event: OnEvent = _nothing
        self.on_room: Callable[[], None] = _nothing
        self._fleet = fleet
        self._commands = NodeCommands(fleet.commands, self._on_host, self._room)
        self._command = HostCommand(())
        self._begun = self._paused = False
        self._kept: list[Callable[[], None]] = []
        self._heard: set[str] = set()

    def start(self, command: HostCommand) -> None:
        """Connect the nodes; the command begins when each is connected or has failed."""
        self._command = command
        self._fleet_connect.start(self._failed, self._start_command)

    def send(self, data: bytes) -> None:
        """Send input to the hosts that read input."""
        self._commands.send(data)

    def backlog(self) -> int:
        """Return the number of bytes of input that the slowest host has not read."""
        return self._commands.unread if self._begun else NOT_READY

    def pause(self, paused: bool) -> None:
        """Limit the hosts' output to one window, or continue."""
        self._paused = paused
        kept, self._kept = self._kept, []
        for taken in kept:
            self._taken(taken)

    def stop(self) -> None:
        """Stop the command; give up hosts that are not connected."""
        arrived = () if self._begun else tuple(self._fleet_connect.connected)
        self._begun = True
        self._fleet_connect.cancel(STOPPED)
        for node in arrived:
            self._failed(node, STOPPED)
        self._commands.stop()

    def close(self) -> None:
        """Make all node launchers exit."""
        self._fleet.close(SessionEnd(0, ""))
        self._fleet.close_at_once()

    def _failed(self, node: NodeConnection, cause: str) -> None:
        self.on_event(HostFailed(node.name, cause, began=False))

    def _start_command(self) -> None:
        if not self._begun:
            self._begun = True
            self._commands.start(self._fleet_connect.connected, self._command)
            self.on_room()

    def _on_host(self, event: HostEvent, taken: Callable[[], None]) -> None:
        if isinstance(event, HostFailed):
            self._fleet.loop.call_later(EXPLAINED_WITHIN, lambda: self._lost(event))
            return
        self._heard.add(event.host)
        self.on_event(event)
        self._taken(taken)

    def _lost(self, event: HostFailed) -> None:
        """Report a loss with its cause; a session of ssh that never started ends like any other."""
        causes = {node.name: cause for node, cause in self._fleet_connect.causes.items()}
        why = causes.get(event.host)
        began = event.host in self._heard or not why
        self.on_event(HostFailed(event.host, why or event.cause, began))

    def _taken(self, taken: Callable[[], None]) -> None:
        if self._paused:
            self._kept.append(taken)
        else:
            taken()

    def _room(self) -> None:
        self.on_room()


def _nothing(*_: object) -> None:
    """Do nothing."""
