"""The logs of one round, as the node launcher sees them: it passes records to their writer.

Nothing here waits for a disk, except the start, and that only for a limited time. While too many
records wait, the workers' output is not read. A writer that gets no further is given up, and the
job goes on without logs.
"""

from __future__ import annotations

import os
import signal
import socket
from collections import deque
from functools import partial

from ...common.errors import reason
from ...common.readiness import ready
from ..machine import processes
from . import log_process
from .log_process import HEAD

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ...common.loop import Loop, Timer
    from .log_process import OpenLogs

ROOM = 1 << 20
"""Bytes of records that may wait here before the workers' output is not read any more."""

CHECKS = 4
"""How often a writer is looked at before it is given up. Checks are counted instead of time: a job
that is suspended as a whole continues afterwards."""

_MESSAGE = 65536
_KILLED = "the process that writes here was killed"


class LogWriter:
    """The process that writes one round's logs.

    Attributes:
        pid: the process, 0 once it is reaped.
        given_up: whether it has got no further, or was killed.
    """

    def __init__(
        self,
        paths: Mapping[int, Mapping[int, str]],
        open_logs: OpenLogs,
        note: Callable[[str], None],
        patience: float,
    ) -> None:
        """Start it, and wait until the logs are open.

        Args:
            paths: the files of each rank, by stream.
            open_logs: opens them, in the process; is given what reports a log that ends early.
            note: takes a line for the user about such a log, or about the end of all.
            patience: seconds without progress after which it is given up.

        Raises:
            OSError: a folder or a file cannot be created, or no process.
        """
        self._paths = paths
        self._note = note
        self._patience = patience
        self._waiting: deque[tuple[bytes, bytes]] = deque()
        self._size = 0
        self._full = False
        self._written = False
        self.given_up = False
        self._missed = 0
        self._timer: Timer | None = None
        self._loop: Loop | None = None
        self._on_room: Callable[[], None] = lambda: None
        self._then: Callable[[], None] | None = None
        self.pid, line = log_process.fork(open_logs)
        self._line: socket.socket | None = line
        self._await_logs(line)

    def _await_logs(self, line: socket.socket) -> None:
        for _ in range(CHECKS):
            if ready([line.fileno()], self._patience / CHECKS):
                break
        else:
            self._give_up(self._silent)
            return
        message = line.recv(_MESSAGE)
        if not message:
            self._give_up(_KILLED)
        elif problem := log_process.problem(message):
            self.abandon()
            raise problem

    @property
    def over(self) -> bool:
        """Whether nothing more is written."""
        return self._line is None

    @property
    def full(self) -> bool:
        """Whether no more output should be read until there is room again."""
        return self._full

    def errors(self, rank: int) -> str:
        """Return the path of the file of a rank's standard error, "" for none."""
        return self._paths[rank].get(2, "")

    def sink(self, rank: int, stream: int) -> Callable[[bytes], None] | None:
        """Return what appends to a file, None if there is none."""
        if stream not in self._paths[rank]:
            return None
        return partial(self._write, HEAD.pack(rank, stream))

    def serve(self, loop: Loop, on_room: Callable[[], None]) -> None:
        """Pass on records from now on; call `on_room` when it has been full and is not any more."""
        self._loop, self._on_room = loop, on_room
        if self._line is not None:
            loop.add_reader(self._line.fileno(), self._hear)

    def close(self, then: Callable[[], None]) -> None:
        """Call `then` once all is written and the process is gone, or the writer is given up."""
        if self._line is None:
            then()
            return
        self._then = then
        self._send()

    def abandon(self) -> None:
        """Let it end by itself, if it can."""
        line, self._line = self._line, None
        if line is None:
            return
        if self._timer is not None:
            self._timer.cancel()
        if self._loop is not None:
            self._loop.remove(line.fileno())
        line.close()
        self._waiting.clear()
        self._full = False

    def on_reaped(self, pid: int) -> None:
        """Handle the end of a child of this process."""
        if pid != self.pid:
            return
        self.pid = 0
        if self._written:
            self._over()

    # -- records ----------------------------------------------------------------------------

    def _write(self, head: bytes, data: bytes) -> None:
        if self._line is None:
            return
        self._waiting.append((head, data))
        self._size += len(data)
        self._full = self._full or self._size > ROOM
        if len(self._waiting) == 1:
            self._send()

    def _send(self) -> None:
        """Send what waits, as far as there is room; at the end of all, end the line."""
        line, loop = self._line, self._loop
        assert line is not None
        assert loop is not None
        try:
            while self._waiting:
                line.sendmsg(self._waiting[0])
                self._size -= len(self._waiting.popleft()[1])
                self._missed = 0
        except BlockingIOError:
            if not loop.has_writer(line.fileno()):
                loop.add_writer(line.fileno(), self._send)
            self._expect(loop)
            return
        except OSError as error:
            self._give_up(_KILLED if isinstance(error, ConnectionError) else reason(error))
            return
        loop.remove_writer(line.fileno())
        if self._then is not None:
            line.shutdown(socket.SHUT_WR)
            self._expect(loop)
        elif self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._full:
            self._full = False
            self._on_room()

    # -- its answers, and its end -----------------------------------------------------------

    def _hear(self) -> None:
        assert self._line is not None
        try:
            message = self._line.recv(_MESSAGE)
        except BlockingIOError:
            return
        except ConnectionError:  # it has left records unread
            self._give_up(_KILLED)
            return
        if message:
            self._note(message.decode("utf-8", "surrogateescape"))
        elif self._then is not None and not self._waiting:
            assert self._loop is not None
            self._loop.remove(self._line.fileno())
            self._written = True
            if not self.pid:
                self._over()
        else:
            self._give_up(_KILLED)

    def _expect(self, loop: Loop) -> None:
        """Give it up after a while without progress, from now on."""
        if self._timer is None:
            self._missed = 0
            self._timer = loop.call_later(self._patience / CHECKS, partial(self._check, loop))

    def _check(self, loop: Loop) -> None:
        self._missed += 1
        if self._missed > CHECKS:
            self._give_up(self._silent)
        else:
            self._timer = loop.call_later(self._patience / CHECKS, partial(self._check, loop))

    @property
    def _silent(self) -> str:
        return f"nothing could be written for {self._patience:g} s"

    def _give_up(self, why: str) -> None:
        """Do without logs from now on."""
        path = os.path.commonpath([path for one in self._paths.values() for path in one.values()])
        self._note(f"{path}: {why}; the logs end here")
        self.given_up = True
        if self.pid:
            processes.send(self.pid, signal.SIGKILL)
        self._over()
        self._on_room()

    def _over(self) -> None:
        self.abandon()
        then, self._then = self._then, None
        if then is not None:
            then()
