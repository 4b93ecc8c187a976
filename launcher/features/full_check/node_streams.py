"""Both ends of a connection on which a link is measured.

The caller sends a token, the other end proves that it knows the token, and then the caller sends
orders of one `WORD` each: to echo it, to receive or to send a stream of blocks, and to report the
TCP counters. The first byte of a block says whether another block follows.
"""

from __future__ import annotations

import hmac
import socket
import struct
import time

from ...common.errors import NodeError
from ...common.network import lines_of
from ...common.records import NamedTuple

WORD = struct.Struct("!4s4xd")
ECHO, RECEIVE, SEND, TELL = b"echo", b"recv", b"send", b"tell"

TOLD = struct.Struct("!dd")
"""An answer: the bytes and seconds of a stream, or two counters."""

BLOCK = 64 * 1024
"""Bytes that are sent and received at a time."""

MORE, LAST = b"\1", b"\0"

STALL = 5
"""Seconds without progress that end a measurement."""

LONGEST_STREAM = 10.0
"""Seconds that a caller can have this node send at most."""

UNSENT = 4 * BLOCK
"""Bytes that wait in the kernel, so that a stream ends in time on a slow link."""

RETRANSMITTED, SEGMENTS = 100, 156
"""Offsets of tcpi_total_retrans and tcpi_data_segs_out in struct tcp_info (linux/tcp.h, 4.6)."""


def prepare(line: socket.socket) -> None:
    """Set the options of a connection; its calls block, but not longer than `STALL`."""
    line.settimeout(None)
    for option in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO):
        line.setsockopt(socket.SOL_SOCKET, option, struct.pack("@ll", STALL, 0))
    line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, UNSENT)


def proof(token: str) -> bytes:
    """Return a proof of knowing a token, which does not reveal the token."""
    return hmac.digest(token.encode(), b"dsrun full check", "sha256")


def receive(line: socket.socket, size: int) -> bytearray:
    """Return this number of bytes.

    Raises:
        OSError: the connection was closed, or was silent for `STALL` seconds.
    """
    data = bytearray(size)
    _fill(line, memoryview(data))
    return data


def _fill(line: socket.socket, view: memoryview) -> None:
    while view:
        try:
            size = line.recv_into(view, 0, socket.MSG_WAITALL)
        except BlockingIOError:
            raise TimeoutError(f"nothing arrived for {STALL} s") from None
        if not size:
            raise ConnectionResetError("the connection was closed")
        view = view[size:]


def send_stream(line: socket.socket, seconds: float) -> float:
    """Send a stream for this time; return the seconds in which this thread waited for a core.

    Raises:
        OSError: as `receive`.
    """
    before = waited()
    end = time.monotonic() + seconds
    more, last = (mark + bytes(BLOCK - 1) for mark in (MORE, LAST))
    try:
        line.sendall(more)
        while time.monotonic() < end:
            line.sendall(more)
        line.sendall(last)
    except BlockingIOError:
        raise TimeoutError(f"nothing could be sent for {STALL} s") from None
    return waited() - before


def receive_stream(line: socket.socket) -> tuple[float, float, float]:
    """Receive a stream; return bytes, seconds, and seconds without a core after the first block.

    Raises:
        OSError: as `receive`.
    """
    block = memoryview(bytearray(BLOCK))
    _fill(line, block)
    begin, before, size = time.monotonic(), waited(), 0
    while block[:1] == MORE:
        _fill(line, block)
        size += BLOCK
    return float(size), time.monotonic() - begin, waited() - before


def waited() -> float:
    """Return the seconds in which this thread could have run, but had no core; 0 if unknown.

    It is the second field of schedstat (Documentation/scheduler/sched-stats.rst).
    """
    for line in lines_of("/proc/thread-self/schedstat"):
        return int(line.split()[1]) / 1e9
    return 0.0


class Rates(NamedTuple):
    """The speed of a stream, in bytes per second.

    Attributes:
        rate: the measured speed.
        free: the speed if both ends had always had a core. This distinguishes a busy node from a
            slow link, on which the ends wait for the network.
    """

    rate: float
    free: float


def rates(size: float, seconds: float, waits: float) -> Rates:
    """Return the rates of a stream whose ends had no core for `waits` seconds."""
    seconds = max(seconds, 1e-6)
    return Rates(size / seconds, size / max(seconds - waits, seconds / 20))


def counters(line: socket.socket) -> tuple[int, int]:
    """Return the numbers of segments sent and retransmitted; (0, 0) on an older kernel."""
    info = line.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
    if len(info) < SEGMENTS + 4:
        return 0, 0
    sent, resent = (struct.unpack_from("@I", info, at)[0] for at in (SEGMENTS, RETRANSMITTED))
    return sent, resent


def serve_caller(line: socket.socket, token: str) -> None:
    """Serve a caller until it ends the connection.

    Raises:
        OSError: the connection ends, or the caller does nothing, or does not know the token.
    """
    prepare(line)
    if not hmac.compare_digest(receive(line, len(token)), token.encode()):
        raise PermissionError("the caller does not have the token")
    line.sendall(proof(token))
    while True:
        order = bytes(receive(line, WORD.size))
        word, value = WORD.unpack(order)
        if word == ECHO:
            line.sendall(order)
        elif word == RECEIVE:
            size, seconds, waits = receive_stream(line)
            line.sendall(TOLD.pack(size, seconds) + TOLD.pack(waits, 0.0))
        elif word == SEND:
            waits = send_stream(line, min(value, LONGEST_STREAM))
            line.sendall(TOLD.pack(waits, 0.0))
        elif word == TELL:
            line.sendall(TOLD.pack(*counters(line)))


class StreamCaller:
    """The end that gives the orders."""

    def __init__(self, line: socket.socket, token: str) -> None:
        """Show the token.

        Raises:
            NodeError: the other end does not prove that it knows it.
            OSError: as `receive`.
        """
        self._line = line
        prepare(line)
        line.sendall(token.encode())
        if not hmac.compare_digest(receive(line, len(proof(token))), proof(token)):
            raise NodeError("another program answers there")

    def round_trips(self, most: int, seconds: float) -> list[float]:
        """Return the times of round trips in seconds, sorted; at least one."""
        times: list[float] = []
        end = time.monotonic() + seconds
        self._echo()  # the other end gets ready
        while not times or (len(times) < most and time.monotonic() < end):
            times.append(self._echo())
        return sorted(times)

    def send(self, seconds: float) -> Rates:
        """Return the speed of a stream to the other end."""
        self._order(RECEIVE)
        waits = send_stream(self._line, seconds)
        size, taken = self._answer()
        others, _ = self._answer()
        return rates(size, taken, waits + others)

    def fetch(self, seconds: float) -> Rates:
        """Return the speed of a stream from the other end."""
        self._order(SEND, seconds)
        size, taken, waits = receive_stream(self._line)
        others, _ = self._answer()
        return rates(size, taken, waits + others)

    def counters(self) -> tuple[int, int, int, int]:
        """Return the segments sent and retransmitted here, and those at the other end."""
        self._order(TELL)
        sent, resent = self._answer()
        return (*counters(self._line), int(sent), int(resent))

    def _echo(self) -> float:
        begin = time.perf_counter()
        self._order(ECHO)
        receive(self._line, WORD.size)
        return time.perf_counter() - begin

    def _order(self, word: bytes, value: float = 0.0) -> None:
        self._line.sendall(WORD.pack(word, value))

    def _answer(self) -> tuple[float, float]:
        one, other = TOLD.unpack(receive(self._line, TOLD.size))
        return one, other
