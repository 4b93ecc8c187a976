"""A control line on an event loop: dispatches frames as they arrive, and never blocks on writes."""

from __future__ import annotations

from ..common import loop as loops
from ..common.text import plain
from . import frames
from .stream import FrameStream, NotFrames, StreamClosed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Handler = Callable[[bytes], None]


UNREAD = 2 * frames.FRAME_LIMIT
"""Bytes that may wait for the other end to read: a JOB, and its following frames."""

LAST_WORDS = 2.0
"""Seconds to read the last frames of the other end once nothing can be written to it."""

QUOTED = 200
"""Longest reason in characters: it may quote bytes from the other end."""


class Connection:
    """Serves one stream: calls `handlers` by kind of frame, and `on_closed` once with the reason.

    Attributes:
        last_received: the arrival of the last frame, on the loop's clock.
        fault: the other end's violation of the protocol, "" if there was none.
    """

    def __init__(
        self,
        loop: loops.Loop,
        line: FrameStream,
        handlers: Mapping[int, Handler],
        on_closed: Callable[[str], None],
    ) -> None:
        self._loop = loop
        self._line: FrameStream | None = line
        self._handlers = handlers
        self._on_closed = on_closed
        self.last_received = loop.clock()
        self.fault = ""
        self._broken = ""
        self._on_drained: list[Callable[[], None]] = []
        if line.read_fd >= 0:
            loop.add_reader(line.read_fd, self.receive)
        self._await_room()
        loop.call_later(0.0, lambda: self._take(line.take_buffered()))

    @property
    def line(self) -> FrameStream | None:
        """The stream; None once it is closed."""
        return self._line

    @property
    def open(self) -> bool:
        """True if frames can be sent, as far as known."""
        return self._line is not None and not self._broken

    @property
    def pending(self) -> int:
        """The number of bytes that wait for the other end to read."""
        return self._line.pending if self._line is not None and not self._broken else 0

    def when_drained(self, call: Callable[[], None]) -> None:
        """Call a function each time all queued bytes have been sent."""
        self._on_drained.append(call)

    def send(self, frame: bytes) -> None:
        """Send one packed frame; do nothing on a closed connection."""
        line = self._line
        if line is None or self._broken:
            return
        try:
            line.send(frame)
        except StreamClosed as closed:
            self._break(line, str(closed))
            return
        if line.pending > UNREAD:
            self._on_fault("it is not reading from the connection")
        self._await_room()

    def close(self) -> None:
        """Close the connection without calling `on_closed`."""
        line, self._line = self._line, None
        if line is not None:
            self._loop.remove(line.read_fd)
            self._loop.remove(line.write_fd)
            line.close()

    def receive(self) -> None:
        """Read and handle frames; the owner of a stream without descriptors calls this."""
        if self._line is None:
            return
        self._take(self._line.take_buffered())
        try:
            arrived = self._line.receive()
        except NotFrames as error:
            self._on_fault(str(error))
            return
        except StreamClosed as closed:
            self._lose(self._broken or str(closed))
            return
        if arrived:
            self.last_received = self._loop.clock()
        self._await_room()
        self._take(arrived)

    def _take(self, arrived: list[tuple[int, bytes]]) -> None:
        for kind, body in arrived:
            if self._line is not None:
                self._dispatch(kind, body)

    def _dispatch(self, kind: int, body: bytes) -> None:
        try:
            handler = self._handlers[kind]
        except KeyError:
            self._on_fault(f"it sent an invalid frame: unexpected kind {kind}")
            return
        try:
            handler(body)
        except frames.BadFrame as error:
            self._on_fault(f"it sent an invalid frame of kind {kind}: {error}")

    def _on_fault(self, fault: str) -> None:
        self.fault = plain(fault)[:QUOTED]
        self._lose(self.fault)

    def _flush(self) -> None:
        if self._line is None:
            return
        try:
            self._line.flush()
        except StreamClosed as closed:
            self._break(self._line, str(closed))
            return
        self._await_room()

    def _break(self, line: FrameStream, reason: str) -> None:
        """Stop writing, but read on: the last frames of the other end may say why it closed."""
        self._broken = reason
        self._loop.remove_writer(line.write_fd)
        self._loop.call_later(LAST_WORDS, lambda: self._lose(reason))

    def _await_room(self) -> None:
        line = self._line
        if line is None or self._broken:
            return
        if not line.pending:
            if self._loop.has_writer(line.write_fd):
                self._loop.remove_writer(line.write_fd)
                for call in self._on_drained:
                    call()
        elif not self._loop.has_writer(line.write_fd):
            self._loop.add_writer(line.write_fd, self._flush)

    def _lose(self, reason: str) -> None:
        if self._line is not None:
            self.close()
            self._on_closed(reason)
