"""Runs a command on connected nodes, and reports on it by the names of their hosts."""

from __future__ import annotations

from ...common.exit_codes import as_shell
from ...head.fleet.commands import CommandEnded, CommandLost, CommandOutput, CommandSpec
from .runner_events import HostEnded, HostFailed, HostOutput

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import TypeAlias

    from ...head.fleet.commands import CommandEvent, FleetCommands, RunningCommands
    from ...head.fleet.node_connection import NodeConnection
    from .runner_events import HostCommand, HostEvent

    Taken: TypeAlias = Callable[[], None]


class NodeCommands:
    """One command on some nodes of a fleet."""

    def __init__(
        self,
        commands: FleetCommands,
        on_event: Callable[[HostEvent, Taken], None],
        on_room: Callable[[], None],
    ) -> None:
        """Prepare a command.

        Args:
            commands: the commands of the fleet.
            on_event: called with each event and a function to call when an output is consumed;
                until then the node sends no more than a window.
            on_room: called when a node has consumed input.
        """
        self._commands = commands
        self._on_event = on_event
        self._on_room = on_room
        self._reading: RunningCommands | None = None
        self._running: list[RunningCommands] = []

    def start(self, nodes: Sequence[NodeConnection], command: HostCommand) -> None:
        """Start the command on these nodes."""
        reading = [node for node in nodes if node.name in command.readers]
        others = [node for node in nodes if node.name not in command.readers]
        for some, reads in ((reading, True), (others, False)):
            if some:
                self._start_some(some, CommandSpec(command.argv, {}, command.workdir, reads))

    def _start_some(self, nodes: Sequence[NodeConnection], spec: CommandSpec) -> None:
        running = self._commands.run(nodes, spec, lambda event: self._on_command(running, event))
        self._running.append(running)
        if spec.stdin:
            self._reading = running

    @property
    def unread(self) -> int:
        """Bytes of input that some node has not taken yet."""
        return self._reading.unread if self._reading is not None else 0

    def send(self, data: bytes) -> None:
        """Send input to the nodes that read input; b"" ends it."""
        if self._reading is not None:
            self._reading.feed(data)

    def stop(self) -> None:
        """End the command wherever it runs."""
        for running in self._running:
            running.stop()

    def _on_command(self, running: RunningCommands, event: CommandEvent) -> None:
        name = event.node.name
        match event:
            case CommandOutput(_, stream, data):
                self._on_event(HostOutput(name, stream, data), lambda: running.took(event))
            case CommandEnded(_, code, hint):
                if hint:
                    words = f"{hint}\n".encode("utf-8", "surrogateescape")
                    self._on_event(HostOutput(name, 2, words), _nothing)
                self._on_event(HostEnded(name, as_shell(code)), _nothing)
            case CommandLost(_, reason):
                self._on_event(HostFailed(name, reason, began=True), _nothing)
        self._on_room()


def _nothing() -> None:
    """Do nothing."""
