"""One end of a control line over plain file descriptors (a pipe, a socket pair, an ssh session)."""

import select

from ..common import system
from ..common.errors import reason
from . import frames

READ_SIZE = 64 * 1024
"""Bytes that a pipe holds (pipe(7)); the C library maps and unmaps larger buffers for each read."""

CLOSED = "closed by the other end"
"""The reason for the end of a stream that the other end has closed normally."""


class StreamClosed(Exception):
    """The stream has ended, or carries something other than frames; the text says why."""


class NotFrames(StreamClosed):
    """The stream carries something other than frames."""


class FrameStream:
    """Reads and writes frames on two non-blocking descriptors.

    The owner waits for readiness, then calls `receive` or `flush`. `send` queues bytes that cannot
    be written at once; `pending` is the number of queued bytes.

    Attributes:
        spoke: whether the other end has given a sign of life; False only for a session at first.
        begun: the start of the session, on the loop's clock, if later than the stream's start.
        noise, errors: the session's output, on its two streams, before the first sign of life.
    """

    spoke = True
    begun = 0.0
    noise = errors = b""

    def __init__(self, read_fd: int, write_fd: int) -> None:
        self.read_fd = read_fd
        self.write_fd = write_fd
        self.pending = 0
        self._queue: list[bytes] = []
        self._decoder = frames.Decoder()
        self._buffered: list[tuple[int, bytes]] = []
        for fd in (read_fd, write_fd):
            if fd >= 0:  # a lane has no descriptors
                system.set_blocking(fd, False)

    def take_buffered(self) -> list[tuple[int, bytes]]:
        """Return, only once, the frames that arrived together with an awaited frame."""
        buffered, self._buffered = self._buffered, []
        return buffered

    def put_back(self, data: bytes) -> None:
        """Keep frames that somebody else has read, for `take_buffered` to return.

        Raises:
            StreamClosed: the bytes are not frames.
        """
        self._buffered += self.decode(data)

    def limit(self, size: int) -> None:
        """Accept frames with bodies of at most `size` bytes from now on."""
        self._decoder.limit = size

    def send(self, frame: bytes) -> None:
        """Queue one packed frame, and write as much as possible without waiting.

        Raises:
            StreamClosed: the other end is gone.
        """
        self._queue.append(frame)
        self.pending += len(frame)
        self.flush()

    def flush(self) -> None:
        """Write as much as possible without waiting.

        Raises:
            StreamClosed: the other end is gone.
        """
        while self._queue:
            chunk = self._queue[0]
            try:
                count = self._write(chunk)
            except BlockingIOError:
                return
            except OSError as error:
                raise StreamClosed(reason(error)) from None
            self.pending -= count
            if count == len(chunk):
                self._queue.pop(0)
            else:
                self._queue[0] = chunk[count:]

    def receive(self) -> list[tuple[int, bytes]]:
        """Return the (kind, body) frames that have arrived.

        Raises:
            StreamClosed: end of the stream, a read error, or bytes that are not frames.
        """
        try:
            data = self._read()
        except BlockingIOError:
            return []
        except OSError as error:
            raise StreamClosed(reason(error)) from None
        if not data:
            raise StreamClosed(CLOSED)
        return self.decode(data)

    def decode(self, data: bytes) -> list[tuple[int, bytes]]:
        """Return the frames that `data` completes.

        Raises:
            StreamClosed: the bytes are not frames.
        """
        try:
            return self._decoder.feed(data)
        except frames.BadFrame as error:
            raise NotFrames(f"not a control line: {error}") from None

    def wait_for_one(self, seconds: float) -> tuple[int, bytes] | None:
        """Wait for the next frame, before there is a loop; return None if none arrives.

        Frames that arrive with it are kept for `take_buffered`.
        """
        deadline = system.monotonic() + seconds
        poll = system.poll()
        poll.register(self.read_fd, select.POLLIN)
        while (left := deadline - system.monotonic()) > 0:
            poll.poll(left * 1000)
            try:
                arrived = self.receive()
            except StreamClosed:
                return None
            if arrived:
                self._buffered = arrived[1:]
                return arrived[0]
        return None

    def wait(self, seconds: float) -> bool:
        """Wait for the next frame, and keep it for `take_buffered`; return whether one arrived."""
        first = self.wait_for_one(seconds)
        if first is not None:
            self._buffered.insert(0, first)
        return first is not None

    def close(self) -> None:
        """Close both descriptors; may be called twice."""
        for fd in {self.read_fd, self.write_fd}:
            if fd >= 0:
                system.close(fd)
        self.read_fd = self.write_fd = -1

    def _write(self, data: bytes) -> int:
        return system.write(self.write_fd, data)

    def _read(self) -> bytes:
        return system.read(self.read_fd, READ_SIZE)
