"""Connects an ssh session, which runs in a thread, with a control line, which is on the loop."""

from __future__ import annotations

import os
import select
import socket
import threading
import traceback
from contextlib import contextmanager, suppress

from ...common.text import plain
from ...control.frames import MAGIC
from .. import causes
from ..causes import SessionFailed
from ..stdio import SessionStream

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ...specs.host import Host
    from .client import Channel, SshSessions

BLOCK = 128 * 1024


class Bridge:
    """Copies bytes both ways between a session's channel and a socket pair.

    Attributes:
        fd, write_fd: the loop's end, as two descriptors of one socket.
        stream: the stream on these.
    """

    def __init__(
        self,
        sessions: SshSessions,
        host: Host,
        command: str,
        explain: Callable[[str], None],
        opened: Callable[[Bridge], None] = lambda _: None,
        python: str = "",
        *,
        held: bool = False,
    ) -> None:
        """Prepare a bridge.

        Args:
            sessions: opens the session.
            host: the host that the command runs on.
            command: starts a node launcher.
            explain: called with tracebacks of unexpected errors.
            opened: called with this, in its thread, once the session is open or has failed.
            python: the interpreter that the command runs.
            held: see `SessionStream`.
        """
        self._sessions = sessions
        self._host = host
        self._command = command
        self._tried = causes.attempt(host, python)
        self._explain, self._opened = explain, opened
        ours, self._socket = socket.socketpair()
        self.fd = ours.detach()
        self.write_fd = os.dup(self.fd)
        self.stream = SessionStream(self.fd, self.write_fd, held=held)
        self._out = b""
        self._answered = False
        self._channel: Channel | None = None
        self._closed = False

    def run(self) -> str:
        """Open the session and copy until it ends; return why it failed, or ""."""
        try:
            try:
                self._channel = self._sessions.open(self._host, self._command)
            finally:
                self._opened(self)
            with self._socket:
                self._copy(self._channel)
                code = self._sessions.close(self._channel)
        except SessionFailed as error:
            self._socket.close()
            return plain(str(error))
        except Exception as error:
            # Any exception of paramiko in this thread is a failure of only this host.
            self._socket.close()
            self._explain(f"{self._host.name}: {traceback.format_exc()}")
            return f"the ssh session failed: {plain(str(error) or type(error).__name__)}"
        errors = self.stream.errors.decode("utf-8", "replace")
        return causes.explain_session(code, errors, self._out, self._tried, answered=self._answered)

    def discard(self) -> None:
        """Close the bridge's own end of the line: no thread runs the bridge."""
        self._socket.close()

    def close(self) -> None:
        """End the session from the loop's side; the thread then ends on its own."""
        self._closed = True
        if self._channel is not None:
            # paramiko notifies the server, and raises if the connection is gone.
            with suppress(EOFError, OSError):
                self._channel.close()

    def _copy(self, channel: Channel) -> None:
        poll = select.poll()
        poll.register(self._socket.fileno(), select.POLLIN)
        sending = True
        with _arrivals(channel) as arrivals:
            poll.register(arrivals, select.POLLIN)
            while not self._closed:
                ready = {fd for fd, _ in poll.poll()}
                if sending and self._socket.fileno() in ready:
                    sending = self._send(channel, poll)
                if arrivals in ready:
                    os.eventfd_read(arrivals)
                    if not self._receive(channel):
                        return

    def _send(self, channel: Channel, poll: select.poll) -> bool:
        """Copy from the loop to the node; return whether there may be more."""
        try:
            data = self._socket.recv(BLOCK)
        except ConnectionResetError:
            data = b""
        # The session may just have ended, with the reason still to be received.
        with suppress(OSError):
            if data:
                channel.sendall(data)
                return True
            channel.shutdown_write()
        poll.unregister(self._socket.fileno())
        return False

    def _receive(self, channel: Channel) -> bool:
        """Copy from the node to the loop; return False at the end of the session."""
        ended = channel.eof_received or channel.closed
        while channel.recv_stderr_ready():
            self.stream.errors = (self.stream.errors + channel.recv_stderr(BLOCK))[-16384:]
        while channel.recv_ready():
            data = channel.recv(BLOCK)
            if not self._answered:
                self._out = (self._out + data)[-4096:]
                self._answered = MAGIC in self._out
            try:
                self._socket.sendall(data)
            except BrokenPipeError:
                return False
        return not ended


class _Arrival:
    """An event that paramiko sets in its own thread when a stream has data, as a descriptor.

    `Channel.fileno` may stay silent forever: it serves both streams, and clearing it in this thread
    after one stream was read may lose the news that the other has data.
    """

    def __init__(self) -> None:
        self.fd = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)

    def set(self) -> None:
        """Make the descriptor readable."""
        os.eventfd_write(self.fd, 1)

    def clear(self) -> None:
        """Do nothing: the event is cleared before the streams are read, not afterwards."""


@contextmanager
def _arrivals(channel: Channel) -> Iterator[int]:
    """Yield a descriptor that is readable when either stream of a channel has data, or ends."""
    arrival = _Arrival()
    streams = (channel.in_buffer, channel.in_stderr_buffer)
    for stream in streams:
        stream.set_event(arrival)  # type: ignore[arg-type]  # paramiko uses only these two
    try:
        yield arrival.fd
    finally:
        for stream in streams:
            stream.set_event(threading.Event())  # and the descriptor is no longer used
        os.close(arrival.fd)
