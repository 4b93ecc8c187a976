"""Runs programs of dsrun on the connected nodes of a fleet; see `runner_programs.NodePrograms`."""

from __future__ import annotations

from functools import partial

from ...common.errors import LOST
from ...common.exit_codes import as_shell
from ...head.fleet.commands import CommandEnded, CommandLost, CommandOutput, CommandSpec
from .runner_programs import ProgramOutput

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ...head.fleet.commands import CommandEvent, RunningCommands
    from ...head.fleet.fleet import NodeFleet
    from ...head.fleet.node_connection import NodeConnection
    from .runner_programs import OnEnd, OnLine


class FleetPrograms:
    """The programs on some nodes of a fleet."""

    def __init__(self, fleet: NodeFleet, nodes: Sequence[NodeConnection]) -> None:
        self.names: Sequence[str] = [node.name for node in nodes]
        self.loop = fleet.loop
        self._fleet = fleet
        self._nodes = {node.name: node for node in nodes}

    def start(
        self, program: str, arguments: Mapping[str, Sequence[str]], on_line: OnLine, on_end: OnEnd
    ) -> FleetProgram:
        """Start a program on some of the nodes."""
        running = FleetProgram()
        for host, words in arguments.items():
            spec = CommandSpec(words, stdin=True, program=program)
            output = ProgramOutput(host, on_line, on_end)
            on_event = partial(running.on_event, host, output)
            running.commands[host] = self._fleet.commands.run([self._nodes[host]], spec, on_event)
        return running


class FleetProgram:
    """A program on some nodes, with a command on each."""

    def __init__(self) -> None:
        self.commands: dict[str, RunningCommands] = {}

    def send(self, host: str, line: bytes) -> None:
        """Send a line to its input on a host; b"" ends the input."""
        self.commands[host].feed(line)

    def stop(self) -> None:
        """Stop the program on all nodes."""
        for command in self.commands.values():
            command.stop()

    def on_event(self, host: str, output: ProgramOutput, event: CommandEvent) -> None:
        """Handle an event of the command on a host."""
        match event:
            case CommandOutput(_, stream, data):
                self.commands[host].took(event)
                if not output.add(stream, data):
                    self.commands[host].stop()
            case CommandEnded(_, code, hint):
                output.finish(as_shell(code), hint)
            case CommandLost(_, reason):
                output.finish(LOST, reason)
