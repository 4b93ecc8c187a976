"""One editor that debugs a rank: its bytes go to a program on the node, and back."""

from __future__ import annotations

from functools import partial

from ...head.fleet.commands import (
    WINDOW,
    CommandEnded,
    CommandInputTaken,
    CommandLost,
    CommandOutput,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

    from ...common.loop import Loop, Timer
    from ...head.fleet.commands import CommandEvent, RunningCommands
    from ...head.fleet.node_connection import NodeConnection

BLOCK = 64 * 1024

TAIL = 1000
"""Bytes kept of the program's standard error."""

PATIENCE = 3.0
"""Seconds for the program to end after the editor has disconnected, or the worker has ended."""

READY = b'"configurationDone"'
"""The request of the Debug Adapter Protocol after which the program of a worker begins."""


class Editor:
    """A connection from an editor, and the program that serves it, until both have ended."""

    def __init__(
        self,
        loop: Loop,
        line: socket.socket,
        ready: Callable[[], None],
        gone: Callable[[str], None],
    ) -> None:
        """Prepare; `ready` is called when the editor lets the worker begin.

        `gone` is called once, with the reason for a failure of the program, or "".
        """
        self._loop = loop
        self._line = line
        self._ready = ready
        self._gone = gone
        self._program: RunningCommands
        self._unsent = bytearray()
        self._errors = b""
        self._why: str | None = None
        self._timer: Timer | None = None
        line.setblocking(False)

    def start(self, program: RunningCommands) -> None:
        """Pass the editor's bytes to this program, whose events go to `on_event`."""
        self._program = program
        self._watch()

    def close_soon(self) -> None:
        """End soon: the worker has ended, or the editor has."""
        if self._timer is None:
            self._timer = self._loop.call_later(PATIENCE, self.close)

    def close(self) -> None:
        """End now."""
        self._program.stop()
        self._close_connection()
        if self._why is not None:
            self._finish(self._why)

    def on_event(self, event: CommandEvent) -> None:
        """Handle an event of the program."""
        match event:
            case CommandOutput(node, 1, data):
                self._unsent += data
                self._write(node)
            case CommandOutput(_, _, data):
                self._errors = (self._errors + data)[-TAIL:]
                self._program.took(event)
            case CommandInputTaken():
                self._watch()
            case CommandEnded(_, code, hint):
                words = hint or self._errors.decode("utf-8", "replace").strip()
                gone = self._line.fileno() < 0  # what cannot be told an editor is no failure
                self._on_end(words if code and not gone else "")
            case CommandLost(_, reason):
                self._on_end(reason)

    def _watch(self) -> None:
        """Read from the editor, unless the program has much to read already."""
        fd = self._line.fileno()
        if fd < 0:
            return
        if self._program.unread < WINDOW:
            self._loop.add_reader(fd, self._read)
        elif self._loop.has_reader(fd):
            self._loop.remove(fd)
            self._watch_writer()

    def _read(self) -> None:
        try:
            data = self._line.recv(BLOCK)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        self._program.feed(data)
        if READY in data:
            self._ready()
        if data:
            self._watch()
        else:
            self._close_connection()
            self.close_soon()

    def _write(self, node: NodeConnection) -> None:
        """Write as much as the socket takes; the program may then print as much again."""
        count = len(self._unsent)
        if self._line.fileno() >= 0:
            try:
                count = self._line.send(self._unsent)
            except BlockingIOError:
                count = 0
            except OSError:
                self._close_connection()
        self._program.took(CommandOutput(node, 1, bytes(self._unsent[:count])))
        del self._unsent[:count]
        self._writes = partial(self._write, node)
        self._watch_writer()

    def _watch_writer(self) -> None:
        if self._unsent:
            self._loop.add_writer(self._line.fileno(), self._writes)
        elif self._line.fileno() >= 0:
            self._loop.remove_writer(self._line.fileno())
        if self._why is not None and not self._unsent:
            self._finish(self._why)

    def _close_connection(self) -> None:
        """End the connection; unwritten data is dropped."""
        if self._line.fileno() >= 0:
            self._loop.remove(self._line.fileno())
            self._line.close()
        self._unsent.clear()

    def _on_end(self, why: str) -> None:
        """Handle the end of the program: the editor still gets the rest of its output."""
        self._why = why
        if self._unsent:
            self.close_soon()
        else:
            self._finish(why)

    def _finish(self, why: str) -> None:
        self._why = None
        self._close_connection()
        if self._timer is not None:
            self._timer.cancel()
        self._gone(why)
