"""The logs of one round in the node launcher, which passes records to a writer process.

Only the start waits for a disk, and only for a limited time. While too many records wait, the
workers' output is not read. A writer without progress is killed, and the job continues without
logs.
"""

from __future__ import annotations

import os
import signal
import socket
from collections import deque
from functools import partial

from ...common.errors import reason
from ...common.poll import ready
from ..machine import processes
from . import log_process
from .log_process import HEAD

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ...common.loop import Loop, Timer
    from .log_process import OpenLogs

ROOM = 1 << 20
"""Bytes of records that may wait here before the workers' output is paused."""

CHECKS = 4
"""Number of checks without progress before a writer is killed. Time is not counted, because a job
may be suspended."""

_MESSAGE = 65536
_KILLED = "the process that writes here was killed"


class LogWriter:
    """The process that writes one round's logs, and the records that wait for it.

    Attributes:
        pid: the pid; 0 once reaped.
        given_up: whether the process made no progress, or was killed.
    """

    def __init__(
        self,
        paths: Mapping[int, Mapping[int, str]],
        open_logs: OpenLogs,
        note: Callable[[str], None],
        patience: float,
    ) -> None:
        """Start the process, and wait until the logs are open.

        Args:
            paths: the path of each rank's files, by stream.
            open_logs: opens the files in the process; its argument reports a log that ends early.
            note: called with a message for the user about such a log, or the end of all logs.
            patience: seconds without progress before the writer is killed.

        Raises:
            OSError: a folder, a file or a process cannot be created.
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
            self._stop_logging(self._silent)
            return
        message = line.recv(_MESSAGE)
        if not message:
            self._stop_logging(_KILLED)
        elif problem := log_process.problem(message):
            self.detach()
            raise problem

    @property
    def over(self) -> bool:
        """True if writing has ended."""
        return self._line is None

    @property
    def full(self) -> bool:
        """True if reading output should pause until records have been sent."""
        return self._full

    def errors(self, rank: int) -> str:
        """Return the path of the log of a rank's standard error, or ""."""
        return self._paths[rank].get(2, "")

    def sink(self, rank: int, stream: int) -> Callable[[bytes], None] | None:
        """Return a function that appends to a log; None if there is no such log."""
        if stream not in self._paths[rank]:
            return None
        return partial(self._write, HEAD.pack(rank, stream))

    def serve(self, loop: Loop, on_room: Callable[[], None]) -> None:
        """Send records from now on; call `on_room` when the writer is no longer full."""
        self._loop, self._on_room = loop, on_room
        if self._line is not None:
            loop.add_reader(self._line.fileno(), self._hear)

    def close(self, then: Callable[[], None]) -> None:
        """Call `then` once all records are written and the process has ended, or was killed."""
        if self._line is None:
            then()
            return
        self._then = then
        self._send()

    def detach(self) -> None:
        """Stop using the process, which exits by itself if it can."""
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
        """Handle the end of the process, if it is this child."""
        if pid != self.pid:
            return
        self.pid = 0
        if self._written:
            self._on_over()

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
        """Send waiting records as far as there is room; after the last one, end the line."""
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
            self._stop_logging(_KILLED if isinstance(error, ConnectionError) else reason(error))
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
        except ConnectionError:  # the process ended with unread records
            self._stop_logging(_KILLED)
            return
        if message:
            self._note(message.decode("utf-8", "surrogateescape"))
        elif self._then is not None and not self._waiting:
            assert self._loop is not None
            self._loop.remove(self._line.fileno())
            self._written = True
            if not self.pid:
                self._on_over()
        else:
            self._stop_logging(_KILLED)

    def _expect(self, loop: Loop) -> None:
        """Start to watch for a lack of progress."""
        if self._timer is None:
            self._missed = 0
            self._timer = loop.call_later(self._patience / CHECKS, partial(self._check, loop))

    def _check(self, loop: Loop) -> None:
        self._missed += 1
        if self._missed > CHECKS:
            self._stop_logging(self._silent)
        else:
            self._timer = loop.call_later(self._patience / CHECKS, partial(self._check, loop))

    @property
    def _silent(self) -> str:
        return f"nothing could be written for {self._patience:g} s"

    def _stop_logging(self, why: str) -> None:
        """Kill the process, and continue without logs."""
        path = os.path.commonpath([path for one in self._paths.values() for path in one.values()])
        self._note(f"{path}: {why}; the logs end here")
        self.given_up = True
        if self.pid:
            processes.send(self.pid, signal.SIGKILL)
        self._on_over()
        self._on_room()

    def _on_over(self) -> None:
        self.detach()
        then, self._then = self._then, None
        if then is not None:
            then()
