"""The workers' lines to the shard queues. What they carry the runner understands, not the node."""

from __future__ import annotations

import os
import socket
from contextlib import contextmanager, suppress

from ...accelerator.data import QUEUE_FD
from ..common import loop as loops
from ..control import frames

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from .workers.spawn import WorkerSpec

VARIABLE = QUEUE_FD.encode()

LIMIT = 1 << 20
"""Largest question in bytes, which only a position to load comes near to."""

MOST_LINES = 64
"""QueueLines that the processes of one worker may have at a time."""

BLOCK = 64 * 1024


class QueueLines:
    """All lines of this node's workers, by number; a number is never used again."""

    def __init__(
        self, loop: loops.Loop, send: Callable[[bytes], None], note: Callable[[str], None]
    ) -> None:
        """Be without lines; frames go to `send`, a line for the user to `note`."""
        self.loop = loop
        self._send = send
        self._note = note
        self._lines: dict[int, _QueueLine] = {}
        self._counters: dict[int, _Counter] = {}
        self._number = 0

    @contextmanager
    def given(self, specs: Sequence[WorkerSpec], generation: int) -> Iterator[Sequence[WorkerSpec]]:
        """Give each worker a socket to hand in lines at; ours alone once they are started."""
        pairs = [socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET) for _ in specs]
        try:
            yield [_with(spec, theirs) for spec, (_, theirs) in zip(specs, pairs, strict=True)]
        finally:
            for spec, (ours, theirs) in zip(specs, pairs, strict=True):
                theirs.close()
                self._counters[spec.rank] = _Counter(self, ours, spec.rank, generation)

    def ended(self, rank: int) -> None:
        """Close the lines of a worker that has ended: what it left running takes nothing more."""
        counter = self._counters.pop(rank, None)
        if counter is not None:
            counter.close("")

    def answer(self, number: int, text: bytes) -> None:
        """Pass on an answer; an empty one ends all lines of that worker."""
        line = self._lines.get(number)
        if line is None:
            return
        if text:
            line.answer(text)
        else:
            line.counter.close("")

    def close(self) -> None:
        """End all lines: there is nobody any more who could answer."""
        for rank in tuple(self._counters):
            self.ended(rank)

    def ask(self, line: _QueueLine, text: bytes) -> None:
        """Send a question on."""
        counter = line.counter
        self._send(frames.pack_ask(counter.rank, counter.generation, line.number, text))

    def began(self, line: _QueueLine) -> int:
        """Add a line; return its number."""
        self._number += 1
        self._lines[self._number] = line
        return self._number

    def left(self, line: _QueueLine) -> None:
        """Tell of the end of a line."""
        del self._lines[line.number]
        self.ask(line, b"")

    def note(self, rank: int, text: str) -> None:
        """Say why a worker's lines are closed."""
        self._note(f"rank {rank}: {text}; its lines to the shard queues are closed")


class _Counter:
    """Where the processes of one worker hand in their lines."""

    def __init__(self, lines: QueueLines, ours: socket.socket, rank: int, generation: int) -> None:
        self.rank = rank
        self.generation = generation
        self.lines = lines
        self._socket = ours
        self._open: set[_QueueLine] = set()
        lines.loop.add_reader(ours.fileno(), self._accept)

    def close(self, why: str) -> None:
        """Serve this worker no more; say why, if that is worth a line."""
        if why and self._socket.fileno() >= 0:
            self.lines.note(self.rank, why)
        for line in tuple(self._open):
            self.left(line)
        self._leave()

    def left(self, line: _QueueLine) -> None:
        """Note the end of a line."""
        self._open.discard(line)
        line.close()
        self.lines.left(line)

    def _leave(self) -> None:
        if self._socket.fileno() >= 0:
            self.lines.loop.remove(self._socket.fileno())
            self._socket.close()

    def _accept(self) -> None:
        flags = socket.MSG_DONTWAIT | socket.MSG_CMSG_CLOEXEC
        try:
            _, fds, _, _ = socket.recv_fds(self._socket, 16, 1, flags)
        except BlockingIOError:
            return
        except OSError:
            fds = []
        handed = [line for line in map(_socket, fds) if line is not None]
        if not handed:
            self._leave()  # the worker has ended, or does not mean us
        elif len(self._open) >= MOST_LINES:
            handed[0].close()
            self.close(f"more than {MOST_LINES} lines")
        else:
            self._open.add(_QueueLine(self, handed[0]))


class _QueueLine:
    """One line: a question, then its answer, and never two questions at once."""

    def __init__(self, counter: _Counter, stream: socket.socket) -> None:
        self.counter = counter
        self.number = counter.lines.began(self)
        self._stream = stream
        self._fd = stream.fileno()
        self._read = bytearray()
        self._written = b""
        self._waits = False
        counter.lines.loop.add_reader(self._fd, self._heard)

    def answer(self, text: bytes) -> None:
        """Pass on the answer to the question."""
        self._waits = False
        self._written += text + b"\n"
        self._write()

    def close(self) -> None:
        """Close it."""
        self.counter.lines.loop.remove(self._fd)
        self._stream.close()

    def _heard(self) -> None:
        try:
            data = self._stream.recv(BLOCK, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self.counter.left(self)
            return
        if self._waits or self._written:
            self.counter.close("more than one request at a time")
            return
        self._read += data
        if len(self._read) > LIMIT:
            self.counter.close(f"a request of more than {LIMIT} bytes")
        elif b"\n" in data:
            self._take(bytes(self._read))

    def _take(self, read: bytes) -> None:
        question, _, rest = read.partition(b"\n")
        if rest or not question:
            self.counter.close("more than one request at a time" if rest else "an empty request")
            return
        self._read.clear()
        self._waits = True
        self.counter.lines.ask(self, question)

    def _write(self) -> None:
        with suppress(BlockingIOError):
            try:
                sent = self._stream.send(self._written, socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)
                self._written = self._written[sent:]
            except (BrokenPipeError, ConnectionError):
                self._written = b""  # its end is seen by whoever reads
        if self._written:
            self.counter.lines.loop.add_writer(self._fd, self._write)
        else:
            self.counter.lines.loop.remove_writer(self._fd)


def _with(spec: WorkerSpec, theirs: socket.socket) -> WorkerSpec:
    fd = theirs.fileno()
    named = b"%d:%d" % (fd, os.fstat(fd).st_ino)
    return spec._replace(fds=(*spec.fds, fd), env={**spec.env, VARIABLE: named})


def _socket(fd: int) -> socket.socket | None:
    """Return the socket that was handed in, if it is one."""
    try:
        return socket.socket(fileno=fd)
    except OSError:
        os.close(fd)
        return None
