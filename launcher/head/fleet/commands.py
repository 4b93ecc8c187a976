"""Commands on connected nodes, in addition to all other work there.

A command is started, fed and stopped over the control line of its node. Its output is bounded by
credit: a node sends at most `WINDOW` bytes that have not been consumed yet
(`RunningCommands.took`).
"""

from __future__ import annotations

import signal
from functools import partial
from itertools import count

from ...common.records import NamedTuple
from ...control import command_messages, frames, messages
from ...specs.environment import to_wire

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import TypeAlias

    from .fleet import NodeFleet
    from .node_connection import NodeConnection

WINDOW = 256 * 1024
"""Bytes of output, and of input, of a command on a node that may be on their way."""

BLOCK = 64 * 1024
"""Maximum bytes that a node sends at a time; it may exceed its credit by this number."""


class CommandSpec(NamedTuple):
    """A command for some nodes.

    Attributes:
        program: a program of dsrun (`node.programs`), which gets `argv` as arguments; "" for a
            program of the node.
        env: variables in addition to the node's own.
        workdir: the folder it runs in, "" for the user's home there.
        stdin: whether it is fed; else its standard input is /dev/null.
        seconds: the time limit, 0 for none.
    """

    argv: Sequence[str]
    env: Mapping[str, str] = {}
    workdir: str = ""
    stdin: bool = False
    seconds: float = 0.0
    program: str = ""


class CommandOutput(NamedTuple):
    """A command has printed on its stream 1 (stdout) or 2 (stderr); see `RunningCommands.took`."""

    node: NodeConnection
    stream: int
    data: bytes


class CommandEnded(NamedTuple):
    """The end of a command on a node, where none of its processes is left.

    Attributes:
        code: the exit code, or minus the number of the signal that ended the command; 126 or 127,
            as in a shell, if it could not be started.
        hint: the reason, in words, or "".
    """

    node: NodeConnection
    code: int
    hint: str

    @property
    def failure(self) -> str:
        """The failure in words; "" for a success."""
        if self.hint or self.code == 0:
            return self.hint
        return f"exit code {self.code}" if self.code > 0 else f"killed by signal {-self.code}"


class CommandLost(NamedTuple):
    """The node is lost, or was before the command could be sent; the command is ended there.

    Attributes:
        reason: the reason, in words.
    """

    node: NodeConnection
    reason: str


class CommandInputTaken(NamedTuple):
    """A node has consumed input, and more can be fed: see `RunningCommands.unread`."""

    node: NodeConnection


if TYPE_CHECKING:
    CommandEvent: TypeAlias = CommandOutput | CommandEnded | CommandLost | CommandInputTaken
    OnCommandEvent: TypeAlias = Callable[[CommandEvent], None]


class FleetCommands:
    """Runs commands on the nodes of a fleet; part of the fleet: `NodeFleet.commands`."""

    def __init__(self, fleet: NodeFleet) -> None:
        self._fleet = fleet
        self._ids = count(1)
        self._running: dict[int, RunningCommands] = {}
        fleet.services |= {
            frames.EXEC_OUTPUT: self._on_output,
            frames.EXEC_EXIT: self._on_exit,
            frames.EXEC_TOOK: self._on_took,
        }

    def run(
        self, nodes: Sequence[NodeConnection], command: CommandSpec, on_event: OnCommandEvent
    ) -> RunningCommands:
        """Start a command on some nodes.

        Args:
            nodes: first connections of the fleet's nodes, connected or lost.
            command: the command.
            on_event: called from the loop with every event.
        """
        number = next(self._ids)
        env = {to_wire(name): to_wire(value) for name, value in command.env.items()}
        message = command_messages.ExecCommand(
            id=number,
            argv=tuple(map(to_wire, command.argv)),
            env=env,
            workdir=to_wire(command.workdir),
            stdin=command.stdin,
            seconds=command.seconds,
            credit=WINDOW,
            lease=self._fleet.lease,
            program=command.program,
        )
        running = RunningCommands(number, nodes, self._fleet, on_event, self._remove)
        self._running[number] = running
        running.start(messages.pack(frames.EXEC, message))
        self._fleet.watch()
        return running

    def _remove(self, number: int) -> None:
        self._running.pop(number, None)

    def _of(self, number: int) -> RunningCommands:
        running = self._running.get(number)
        if running is None:
            raise frames.BadFrame(f"there is no command {number}")
        return running

    def _on_output(self, node: NodeConnection, body: bytes) -> None:
        number, stream, data = frames.unpack_exec_output(body)
        self._of(number).on_output(node, stream, data)

    def _on_exit(self, node: NodeConnection, body: bytes) -> None:
        ended = messages.unpack(command_messages.CommandExit, body)
        self._of(ended.id).on_exit(node, ended)

    def _on_took(self, node: NodeConnection, body: bytes) -> None:
        number, size = frames.unpack_exec_count(body)
        self._of(number).on_took(node, size)


class _NodeCommand:
    """A command on one node: the bytes of its streams that are in flight."""

    def __init__(self, on_close: Callable[[str], None]) -> None:
        self.on_close = on_close
        self.untaken = self.owed = self.unread = 0


class RunningCommands:
    """A command on some nodes, until it has ended on all of them."""

    def __init__(
        self,
        number: int,
        nodes: Sequence[NodeConnection],
        fleet: NodeFleet,
        on_event: OnCommandEvent,
        over: Callable[[int], None],
    ) -> None:
        """Prepare the command with this number; `over` is called with it at the end."""
        self._number = number
        self._fleet = fleet
        self._emit = on_event
        self._over = over
        self._parts = {node: _NodeCommand(partial(self._on_loss, node)) for node in nodes}

    @property
    def nodes(self) -> list[NodeConnection]:
        """The nodes on which the command still runs."""
        return list(self._parts)

    @property
    def unread(self) -> int:
        """Bytes of input that some node has not read; feed more only below `WINDOW`."""
        return max((part.unread for part in self._parts.values()), default=0)

    def start(self, frame: bytes) -> None:
        """Send EXEC to all nodes."""
        for node, part in tuple(self._parts.items()):
            if node.connected:
                node.on_close.append(part.on_close)
                self._fleet.expect_beats(node)
                node.send(frame)
            else:
                self._on_loss(node, node.lost or "there is no connection to it")

    def took(self, output: CommandOutput) -> None:
        """Let the node send as much more: this output was written, or is kept on purpose."""
        part = self._parts.get(output.node)
        if part is None:
            return
        part.untaken -= len(output.data)
        part.owed += len(output.data)
        if part.owed * 4 >= WINDOW:
            output.node.send(frames.pack_exec_count(frames.EXEC_CREDIT, self._number, part.owed))
            part.owed = 0

    def feed(self, data: bytes) -> None:
        """Send bytes to the standard input on all nodes; b"" is its end."""
        for node, part in tuple(self._parts.items()):
            part.unread += len(data)
            node.send(frames.pack_numbered(frames.EXEC_INPUT, self._number, data))

    def stop(self, number: int = signal.SIGTERM) -> None:
        """Signal the command on all nodes, and kill its remaining processes two seconds later."""
        for node in tuple(self._parts):
            node.send(frames.pack_numbered(frames.EXEC_STOP, self._number, bytes([number])))

    # -- frames of nodes --------------------------------------------------------------------

    def _part(self, node: NodeConnection) -> _NodeCommand:
        part = self._parts.get(node)
        if part is None:
            raise frames.BadFrame(f"command {self._number} does not run there")
        return part

    def on_output(self, node: NodeConnection, stream: int, data: bytes) -> None:
        """Handle output.

        Raises:
            BadFrame: the output exceeds the credit, or the command does not run there.
        """
        part = self._part(node)
        part.untaken += len(data)
        if part.untaken > WINDOW + BLOCK:
            raise frames.BadFrame(f"{part.untaken} bytes of output, but credit for {WINDOW}")
        self._emit(CommandOutput(node, stream, data))

    def on_took(self, node: NodeConnection, size: int) -> None:
        """Count input that the command has read.

        Raises:
            BadFrame: the count exceeds the sent bytes, or the command does not run there.
        """
        part = self._part(node)
        if size > part.unread:
            raise frames.BadFrame(f"{size} bytes of input read, but only {part.unread} sent")
        part.unread -= size
        self._emit(CommandInputTaken(node))

    def on_exit(self, node: NodeConnection, ended: command_messages.CommandExit) -> None:
        """Handle the end of the command on a node.

        Raises:
            BadFrame: the command does not run there.
        """
        node.on_close.remove(self._part(node).on_close)
        self._remove(node)
        self._emit(CommandEnded(node, ended.code, ended.hint))

    def _on_loss(self, node: NodeConnection, reason: str) -> None:
        """Report the loss from the loop: the caller may be about to send something."""
        if node in self._parts:
            self._remove(node)
            self._fleet.loop.call_later(0.0, lambda: self._emit(CommandLost(node, reason)))

    def _remove(self, node: NodeConnection) -> None:
        del self._parts[node]
        if not self._parts:
            self._over(self._number)
