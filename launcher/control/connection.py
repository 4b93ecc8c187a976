"""A control line on a loop: frames handed out as they arrive, writes that never wait."""

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
"""Bytes that may wait for the other end to read them: a JOB, and what a reader owes in a moment."""

QUOTED = 200
"""Characters of a reason that are shown: it may quote what the other end has sent."""


class Connection:
    """Serves one line: `handlers` by kind of frame, `on_closed` once with the reason.

    Attributes:
        last_received: when the last frame arrived, on the loop's clock.
        fault: what the other end did that no node launcher or runner does, "" for nothing.
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
        loop.add_reader(line.read_fd, self._receive)
        self._await_room()
        loop.call_later(0.0, lambda: self._take(line.take_buffered()))

    @property
    def open(self) -> bool:
        """Whether the line still stands."""
        return self._line is not None

    def send(self, frame: bytes) -> None:
        """Send one packed frame; nothing happens on a line that is closed."""
        line = self._line
        if line is None:
            return
        try:
            line.send(frame)
        except StreamClosed as closed:
            self._lose(str(closed))
            return
        if line.pending > UNREAD:
            self._blame("it does not read what it is sent")
        self._await_room()

    def close(self) -> None:
        """Close the line without telling `on_closed`."""
        line, self._line = self._line, None
        if line is not None:
            self._loop.remove(line.read_fd)
            self._loop.remove(line.write_fd)
            line.close()

    def _receive(self) -> None:
        if self._line is None:
            return
        self._take(self._line.take_buffered())
        try:
            arrived = self._line.receive()
        except NotFrames as error:
            self._blame(str(error))
            return
        except StreamClosed as closed:
            self._lose(str(closed))
            return
        if arrived:
            self.last_received = self._loop.clock()
        self._take(arrived)

    def _take(self, arrived: list[tuple[int, bytes]]) -> None:
        for kind, body in arrived:
            if self._line is not None:
                self._dispatch(kind, body)

    def _dispatch(self, kind: int, body: bytes) -> None:
        try:
            handler = self._handlers[kind]
        except KeyError:
            self._blame(f"it sent an invalid frame: no kind {kind} is expected")
            return
        try:
            handler(body)
        except frames.BadFrame as error:
            self._blame(f"it sent an invalid frame of kind {kind}: {error}")

    def _blame(self, fault: str) -> None:
        self.fault = plain(fault)[:QUOTED]
        self._lose(self.fault)

    def _flush(self) -> None:
        if self._line is None:
            return
        try:
            self._line.flush()
        except StreamClosed as closed:
            self._lose(str(closed))
            return
        self._await_room()

    def _await_room(self) -> None:
        line = self._line
        if line is None:
            return
        if not line.pending:
            self._loop.remove_writer(line.write_fd)
        elif not self._loop.has_writer(line.write_fd):
            self._loop.add_writer(line.write_fd, self._flush)

    def _lose(self, reason: str) -> None:
        self.close()
        self._on_closed(reason)
