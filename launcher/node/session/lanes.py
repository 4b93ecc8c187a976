"""Lanes: additional node launchers on this node, for runs side by side.

Each is a child that serves its standard streams like a session. This node launcher's control line
carries the bytes, so a lane needs no further connection, whatever the backend.
"""

from __future__ import annotations

import os
from contextlib import suppress
from functools import partial

from ...backends.base import node_argv
from ...common import system
from ...control import command_messages, frames, messages
from ...control.connection import UNREAD
from ...specs.backend import BackendSettings
from ..machine import descendants, processes
from ..workers.spawn import SpawnFailed, WorkerSpec, spawn

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ...common.loop import Loop
    from ...control.connection import Connection
    from .signal_deduplicator import SignalDeduplicator

BLOCK = 256 * 1024
"""Bytes that are read and sent at a time."""

FULL = 1 << 20
"""Bytes that may wait on the link before lanes are paused."""

KEPT = 16 * 1024
"""Bytes of standard error kept to explain the end of a lane."""

NOT_STARTED = 126
"""Exit code of a program that cannot be executed, as in a shell (POSIX, 2.8.2)."""


class Lanes:
    """The lanes of one control line."""

    def __init__(
        self,
        loop: Loop,
        link: Connection,
        signals: SignalDeduplicator,
        ended: Callable[[], None],
    ) -> None:
        """Create without lanes; `ended` is called whenever the last lane has ended."""
        self._loop = loop
        self._link = link
        self._signals = signals
        link.when_drained(self._on_drained)
        self._ended = ended
        self._lanes: dict[int, Lane] = {}
        self._newest = 0
        self._closing = self._leaving = False

    @property
    def pids(self) -> set[int]:
        """The guards of the lanes, which are children of this process."""
        return {lane.pid for lane in self._lanes.values()}

    @property
    def over(self) -> bool:
        """True if no lane is left."""
        return not self._lanes

    def on_open(self, body: bytes) -> None:
        """Start a lane in a container.

        Raises:
            BadFrame: the frame is invalid.
        """
        number, entry = messages.unpack(command_messages.OpenLane, body)
        self._open_new(number, entry)

    def on_frame(self, body: bytes) -> None:
        """Pass bytes to a lane; start a lane first if its number is new.

        Raises:
            BadFrame: the frame is invalid.
        """
        number, data = frames.unpack_numbered(body)
        if data and number not in self._lanes:
            self._open_new(number)
        if number in self._lanes:
            self._lanes[number].feed(data)

    def _open_new(self, number: int, entry: Sequence[str] = ()) -> None:
        """Start a lane, unless this number's lane has ended, or this node is leaving."""
        if number <= self._newest:
            return
        self._newest = number
        self._signals.flush()
        if not (self._closing or self._leaving):
            lane = Lane(self._loop, number, self._link, partial(self._on_over, number), entry)
            self._lanes[number] = lane
            lane.start()
            self._signals.started()

    def _on_over(self, number: int) -> None:
        del self._lanes[number]
        if not self._lanes:
            self._ended()

    def on_reaped(self, reaped: Mapping[int, int]) -> None:
        """Handle the end of children, given the wait status of each by pid."""
        for lane in tuple(self._lanes.values()):
            if lane.pid in reaped:
                lane.on_exit(os.waitstatus_to_exitcode(reaped[lane.pid]))

    def _on_drained(self) -> None:
        for lane in self._lanes.values():
            lane.resume()

    def on_signal(self, number: int, *, delivered: bool, ends: bool) -> None:
        """Handle a scheduler's signal to this node.

        Args:
            number: the number of the signal.
            delivered: whether the signal has reached the lanes as well; if not, pass it on.
            ends: whether the signal ends node launchers.
        """
        self._leaving = self._leaving or ends
        for pid in () if delivered else self.pids:
            processes.send(pid, number)

    def close(self) -> None:
        """Close the lines of all lanes, which then end their runs and exit.

        After a signal that ends them, the lines stay open for their last messages.
        """
        self._closing = True
        if not (self._leaving and self._link.open):
            for lane in tuple(self._lanes.values()):
                lane.close()


class Lane:
    """An additional node launcher.

    Attributes:
        pid: the pid of its guard; 0 if it could not be started.
    """

    def __init__(
        self,
        loop: Loop,
        number: int,
        link: Connection,
        over: Callable[[], None],
        entry: Sequence[str] = (),
    ) -> None:
        """Prepare a lane.

        Args:
            loop: the event loop.
            number: its number on the line.
            link: the line.
            over: called once, when it has ended or could not be started.
            entry: the words with which its command enters a container.
        """
        self.pid = 0
        self._entry = entry
        self._loop = loop
        self._number = number
        self._link = link
        self._over = over
        self._stdin = self._stdout = self._stderr = -1
        self._errors = b""
        self._input = bytearray()
        self._input_ended = self._answered = False
        self._code: int | None = None

    def start(self) -> None:
        """Start its guard, or what enters its container, with this process's Python and dsrun."""
        argv = [os.fsencode(one) for one in node_argv(BackendSettings(), *self._entry, "--stdio")]
        try:
            guard = spawn(WorkerSpec(0, argv, dict(os.environb), b".", keep_stdin=True))
        except (SpawnFailed, OSError) as error:
            self._errors, self._code = str(error).encode("utf-8", "replace"), NOT_STARTED
            self._finish_if_drained()
            return
        self.pid = guard.pid
        self._stdin, self._stdout, self._stderr = guard.stdin, guard.stdout, guard.stderr
        self._loop.add_reader(self._stdout, self._read)
        self._loop.add_reader(self._stderr, self._read_errors)

    # -- from the runner ---------------------------------------------------------------------

    def feed(self, data: bytes) -> None:
        """Pass bytes to its line; b"" closes the line."""
        self._input += data
        self._input_ended = self._input_ended or not data
        if self._input_ended and self._entry and not self._answered:
            # A client that hangs before the container runs does not hear of the end of its line.
            descendants.kill_all({*processes.children()} - {self.pid})
        if len(self._input) > UNREAD:
            self._input.clear()
            self._close_input()
        self._write()

    def close(self) -> None:
        """Close its line, and resume reading: a link that stays full must not block its end."""
        self.feed(b"")
        self.resume()

    def _write(self) -> None:
        if self._stdin < 0:
            return
        with suppress(BlockingIOError, BrokenPipeError):
            while self._input:
                del self._input[: system.write(self._stdin, self._input[:BLOCK])]
        if self._input and not self._loop.has_writer(self._stdin):
            self._loop.add_writer(self._stdin, self._write)
        elif not self._input:
            self._loop.remove(self._stdin)
            if self._input_ended:
                self._close_input()

    def _close_input(self) -> None:
        if self._stdin >= 0:
            self._loop.remove(self._stdin)
            system.close(self._stdin)
            self._stdin = -1

    # -- to the runner -----------------------------------------------------------------------

    def _read(self) -> None:
        """Pass on its output; pause it while much waits on the link."""
        data = self._read_from(self._stdout)
        if data is None:
            return
        self._answered = True
        self._link.send(frames.pack_numbered(frames.FROM_LANE, self._number, data))
        if not data:
            self._loop.remove(self._stdout)
            system.close(self._stdout)
            self._stdout = -1
            self._finish_if_drained()
        elif self._link.pending > FULL:
            self._loop.remove(self._stdout)

    def resume(self) -> None:
        """Resume reading, as nothing waits on the link."""
        if self._stdout >= 0:
            self._loop.add_reader(self._stdout, self._read)

    def _read_errors(self) -> None:
        data = self._read_from(self._stderr)
        if data is not None:
            self._errors = (self._errors + data)[-KEPT:]
        if data and self._entry:
            self._link.send(frames.pack_numbered(frames.LANE_SAID, self._number, data))
        if data == b"":
            self._close_errors()

    def _read_from(self, fd: int) -> bytes | None:
        """Return new data; b"" at the end, None if no data is ready."""
        try:
            return system.read(fd, BLOCK)
        except BlockingIOError:
            return None

    def _close_errors(self) -> None:
        if self._stderr >= 0:
            self._loop.remove(self._stderr)
            system.close(self._stderr)
            self._stderr = -1

    # -- the end -----------------------------------------------------------------------------

    def on_exit(self, code: int) -> None:
        """Handle the end of its guard; a node launcher without a guard exits as well."""
        self._code = code
        self._input.clear()
        self._close_input()
        if self._stderr >= 0:
            self._read_errors()
        self._close_errors()
        self._finish_if_drained()

    def _finish_if_drained(self) -> None:
        """Report its end once the guard has ended, and all output has been passed on."""
        if self._code is None or self._stdout >= 0:
            return
        self._close_input()
        errors = self._errors.decode("utf-8", "replace")
        ended = command_messages.LaneEnd(self._number, self._code, errors)
        self._link.send(messages.pack(frames.LANE_ENDED, ended))
        self._over()
