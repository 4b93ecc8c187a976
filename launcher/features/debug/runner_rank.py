"""One rank that is debugged: its port on this machine, and the editor that uses it."""

from __future__ import annotations

from ...common.text import plain
from ...head.fleet.commands import CommandSpec
from .runner_debug_port import DebugPort
from .runner_editor import Editor

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket

    from ...common.unexpected import Log
    from ...head.fleet.fleet import NodeFleet
    from ...head.run.run_node import RunNode

PROGRAM = "debug"
"""The program on a node that connects an editor with a worker (`node.programs`)."""


class DebuggedRank:
    """A rank that is debugged, in all rounds of its job; one editor at a time."""

    def __init__(self, rank: int, fleet: NodeFleet, log: Log, debugging: set[int]) -> None:
        """Take a port of this machine.

        Args:
            rank: the rank.
            fleet: has its node.
            log: prints a message, given its text and level.
            debugging: has the rank while a debugger is attached or awaited.

        Raises:
            OSError: no port is free.
        """
        self._rank, self._fleet, self._log, self._debugging = rank, fleet, log, debugging
        self._port = DebugPort(fleet.loop, self._enter, self._refuse)
        self._node: RunNode | None = None
        self._editor: Editor | None = None
        self._awaited = self._warned = False
        self.port = self._port.port

    def started(self, node: RunNode, *, wait: bool) -> None:
        """Let an editor in: the rank has started on a node, and may wait for an editor."""
        self._node, self._awaited = node, wait
        self._note()
        if self._editor is None:
            self._port.open()

    def ended(self) -> None:
        """Let nobody in: the rank has ended, or is lost."""
        self._node, self._awaited = None, False
        self._note()
        self._port.pause()
        if self._editor is not None:
            self._editor.close_soon()

    def close(self) -> None:
        """Give up the port: the job is over."""
        self._port.close()
        if self._editor is not None:
            self._editor.close()

    def _note(self) -> None:
        """Let the run know whether a debugger is attached or awaited."""
        if self._node is not None and (self._awaited or self._editor is not None):
            self._debugging.add(self._rank)
        else:
            self._debugging.discard(self._rank)

    def _enter(self, line: socket.socket) -> None:
        assert self._node is not None
        assert self._node.task is not None
        fleet, task = self._fleet, self._node.task
        self._editor = editor = Editor(fleet.loop, line, self._begins, self._gone)
        self._note()
        spec = CommandSpec([f"{task.debug_secret}-{self._rank}"], stdin=True, program=PROGRAM)
        first = fleet.nodes[self._node.connection.number]
        editor.start(fleet.commands.run([first], spec, editor.on_event))
        self._log(f"rank {self._rank}: a debugger connected", "debug")

    def _begins(self) -> None:
        self._awaited = False

    def _gone(self, why: str) -> None:
        """Let the next editor in."""
        self._editor = None
        self._note()
        self._log(f"rank {self._rank}: the debugger disconnected", "debug")
        if self._node is not None:
            if why:
                self._log(f"rank {self._rank} cannot be debugged: {plain(why)}", "warning")
            self._port.open()

    def _refuse(self) -> None:
        if not self._warned:
            self._warned = True
            self._log(
                f"rank {self._rank}: refused another user's connection to port {self.port},"
                " where its debugger listens",
                "warning",
            )
