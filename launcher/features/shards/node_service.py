"""The workers' lines to the shard queues. The node passes requests on without reading them."""

from __future__ import annotations

import socket
from contextlib import contextmanager

from ....accelerator.data import QUEUE_FD
from ...common import system
from ...control import frames
from ...node.service import NodeService

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ...common.loop import Loop
    from ...control.messages import Start
    from ...node.service import ServiceContext
    from ...node.workers.spawn import Process, WorkerSpec

VARIABLE = QUEUE_FD.encode()

LIMIT = 1 << 20
"""Largest request in bytes; only loading a position comes near it."""

MOST_LINES = 64
"""Lines that the processes of one worker may have open at a time."""

BLOCK = 64 * 1024


class QueueLines(NodeService):
    """All lines of this node's workers, by number; a number is never reused."""

    def __init__(self, context: ServiceContext) -> None:
        super().__init__(context)
        self._lines: dict[int, _WorkerLine] = {}
        self._workers: dict[int, _WorkerLines] = {}
        self._number = 0

    @property
    def loop(self) -> Loop:
        """The loop of this node launcher."""
        return self.context.loop

    @contextmanager
    def outfit(
        self, specs: Sequence[WorkerSpec], start: Start, /
    ) -> Iterator[Sequence[WorkerSpec]]:
        """Give each worker a socket for opening lines; after the start keep only our end."""
        pairs = [system.socketpair(socket.SOCK_SEQPACKET) for _ in specs]
        try:
            yield [_with(spec, theirs) for spec, (_, theirs) in zip(specs, pairs, strict=True)]
        finally:
            for spec, (ours, theirs) in zip(specs, pairs, strict=True):
                theirs.close()
                self._workers[spec.rank] = _WorkerLines(self, ours, spec.rank, start.generation)

    def exited(self, process: Process, /) -> None:
        """Close the lines of a worker that has ended: processes that it left get no more shards."""
        self._close_of(process.spec.rank)

    def _close_of(self, rank: int) -> None:
        worker = self._workers.pop(rank, None)
        if worker is not None:
            worker.close("")

    def receive(self, body: bytes) -> None:
        """Pass on an answer; an empty one closes all lines of that worker."""
        number, text = frames.unpack_shard_answer(body)
        line = self._lines.get(number)
        if line is None:
            return
        if text:
            line.answer(text)
        else:
            line.worker.close("")

    def abandoned(self) -> None:
        """Close all lines: the runner, which would answer, is lost."""
        self.close()

    def close(self) -> None:
        """Close all lines."""
        for rank in tuple(self._workers):
            self._close_of(rank)

    def ask(self, line: _WorkerLine, text: bytes) -> None:
        """Send a request to the runner."""
        worker = line.worker
        self.context.send(
            frames.pack_shard_request(worker.rank, worker.generation, line.number, text)
        )

    def add(self, line: _WorkerLine) -> int:
        """Add a line; return its number."""
        self._number += 1
        self._lines[self._number] = line
        return self._number

    def remove(self, line: _WorkerLine) -> None:
        """Remove a line, and report its end to the runner."""
        del self._lines[line.number]
        self.ask(line, b"")

    def note(self, rank: int, text: str) -> None:
        """Report why a worker's lines are closed."""
        self.context.note(f"rank {rank}: {text}; its connections to the shard queues are closed")


class _WorkerLines:
    """The lines of one worker, and the socket through which its processes open them."""

    def __init__(self, lines: QueueLines, ours: socket.socket, rank: int, generation: int) -> None:
        self.rank = rank
        self.generation = generation
        self.lines = lines
        self._socket = ours
        self._open: dict[_WorkerLine, None] = {}
        lines.loop.add_reader(ours.fileno(), self._accept)

    def close(self, why: str) -> None:
        """Close all lines of this worker; report `why`, if it is not empty."""
        if why and self._socket.fileno() >= 0:
            self.lines.note(self.rank, why)
        for line in tuple(self._open):
            self.remove(line)
        self._close_socket()

    def remove(self, line: _WorkerLine) -> None:
        """Close and remove a line."""
        self._open.pop(line, None)
        line.close()
        self.lines.remove(line)

    def _close_socket(self) -> None:
        if self._socket.fileno() >= 0:
            self.lines.loop.remove(self._socket.fileno())
            self._socket.close()

    def _accept(self) -> None:
        flags = socket.MSG_DONTWAIT | socket.MSG_CMSG_CLOEXEC
        try:
            _, fds, _, _ = system.recv_fds(self._socket, 16, 1, flags)
        except BlockingIOError:
            return
        except OSError:
            fds = []
        received = [line for line in map(_socket, fds) if line is not None]
        if not received:
            self._close_socket()  # the worker has ended, or has sent something else
        elif len(self._open) >= MOST_LINES:
            received[0].close()
            self.close(f"more than {MOST_LINES} connections")
        else:
            self._open[_WorkerLine(self, received[0])] = None


class _WorkerLine:
    """One line: a request, then its answer, and never two requests at a time."""

    def __init__(self, worker: _WorkerLines, stream: socket.socket) -> None:
        self.worker = worker
        self.number = worker.lines.add(self)
        self._stream = stream
        self._fd = stream.fileno()
        self._read = bytearray()
        self._written = b""
        self._waits = False
        worker.lines.loop.add_reader(self._fd, self._receive)

    def answer(self, text: bytes) -> None:
        """Pass on the answer to the request."""
        self._waits = False
        self._written += text + b"\n"
        self._write()

    def close(self) -> None:
        """Close it."""
        self.worker.lines.loop.remove(self._fd)
        self._stream.close()

    def _receive(self) -> None:
        try:
            data = self._stream.recv(BLOCK, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self.worker.remove(self)
            return
        if self._waits or self._written:
            self.worker.close("more than one request at a time")
            return
        self._read += data
        if len(self._read) > LIMIT:
            self.worker.close(f"a request of more than {LIMIT} bytes")
        elif b"\n" in data:
            self._ask(bytes(self._read))

    def _ask(self, read: bytes) -> None:
        request, _, rest = read.partition(b"\n")
        if rest or not request:
            self.worker.close("more than one request at a time" if rest else "an empty request")
            return
        self._read.clear()
        self._waits = True
        self.worker.lines.ask(self, request)

    def _write(self) -> None:
        try:
            sent = self._stream.send(self._written, socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)
        except BlockingIOError:
            sent = 0
        except OSError:  # its end is seen when it is read, or nothing can be sent to it
            sent = len(self._written)
        self._written = self._written[sent:]
        if self._written:
            self.worker.lines.loop.add_writer(self._fd, self._write)
        else:
            self.worker.lines.loop.remove_writer(self._fd)


def _with(spec: WorkerSpec, theirs: socket.socket) -> WorkerSpec:
    fd = theirs.fileno()
    named = b"%d:%d" % (fd, system.fstat(fd).st_ino)
    return spec._replace(fds=(*spec.fds, fd), env={**spec.env, VARIABLE: named})


def _socket(fd: int) -> socket.socket | None:
    try:
        return system.socket(fileno=fd)
    except OSError:
        system.close(fd)
        return None
