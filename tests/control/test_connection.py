"""A control line on a loop."""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import NamedTuple

import pytest

from dsrun.launcher.common.loop import Loop
from dsrun.launcher.control import frames
from dsrun.launcher.control.connection import LAST_WORDS, UNREAD, Connection
from dsrun.launcher.control.stream import FrameStream

from ..support.clock import Clock
from ..support.limits import HANG
from ..support.streams import BIG, Ends, ends

__all__ = ["ends"]


class Heard(NamedTuple):
    """A connection, and what it told."""

    connection: Connection
    frames: list[tuple[int, bytes]]
    closed: list[str]


def connection_of(loop: Loop, line: FrameStream, *kinds: int, until: int = 99) -> Heard:
    """Return one that takes these kinds, and stops the loop at `until` frames or at its end."""
    heard: list[tuple[int, bytes]] = []
    closed: list[str] = []

    def take(kind: int) -> Callable[[bytes], None]:
        def handler(body: bytes) -> None:
            heard.append((kind, body))
            if len(heard) == until:
                loop.stop()

        return handler

    def end(reason: str) -> None:
        closed.append(reason)
        loop.stop()

    return Heard(Connection(loop, line, {kind: take(kind) for kind in kinds}, end), heard, closed)


def run(loop: Loop) -> None:
    """Run until somebody stops it."""
    late: list[bool] = []

    def give_up() -> None:
        late.append(True)
        loop.stop()

    timer = loop.call_later(HANG, give_up)
    loop.run()
    timer.cancel()
    assert not late


def test_a_connection_hands_out_frames_and_its_end(ends: Ends) -> None:
    loop = Loop()
    heard = connection_of(loop, ends.line, 1, 2)
    ends.far.send(frames.pack(1, b"a") + frames.pack(2) + frames.pack(1, b"b"))
    ends.far.close()
    run(loop)
    assert heard.frames == [(1, b"a"), (2, b""), (1, b"b")]
    assert heard.closed == ["closed by the other end"]
    assert not heard.connection.open
    heard.connection.send(frames.pack(1))
    heard.connection.close()
    assert heard.closed == ["closed by the other end"]


def test_a_connection_writes_more_than_the_socket_holds(ends: Ends) -> None:
    loop = Loop()
    heard = connection_of(loop, ends.line)
    got = bytearray()

    def read() -> None:
        got.extend(ends.far.recv(1 << 20))
        if len(got) == 2 * (len(BIG) + 5):
            loop.stop()

    loop.add_reader(ends.far.fileno(), read)
    heard.connection.send(frames.pack(1, BIG))
    heard.connection.send(frames.pack(2, BIG))
    run(loop)
    assert frames.Decoder().feed(bytes(got)) == [(1, BIG), (2, BIG)]
    assert not loop.has_writer(ends.line.write_fd)


@pytest.mark.parametrize(
    ("stream", "reason"),
    [
        (frames.pack(77, b"x"), "it sent an invalid frame: unexpected kind 77"),
        (frames.pack(9, b"x"), "it sent an invalid frame of kind 9: not JSON: "),
        (b"\xff" * 5, "not a control line: a frame of 4294967295 bytes"),
    ],
)
def test_a_connection_ends_at_nonsense(ends: Ends, stream: bytes, reason: str) -> None:
    loop = Loop()
    closed: list[str] = []

    def end(why: str) -> None:
        closed.append(why)
        loop.stop()

    def read(body: bytes) -> None:
        frames.unpack_json(body)

    Connection(loop, ends.line, {9: read}, end)
    ends.far.send(stream)
    run(loop)
    assert [why[: len(reason)] for why in closed] == [reason]
    assert ends.far.recv(1) == b""


def test_a_connection_notices_at_the_next_word_that_nobody_is_there(ends: Ends) -> None:
    loop = Loop()
    heard = connection_of(loop, ends.line)
    ends.far.close()
    heard.connection.send(frames.pack(1))
    assert (heard.connection.open, heard.closed) == (False, [])
    run(loop)
    assert heard.closed == ["broken pipe"]


def test_what_was_sent_before_the_other_end_left_is_read_first(ends: Ends) -> None:
    """It may say why: nothing can be written any more, but all that has arrived counts."""
    loop = Loop()
    heard = connection_of(loop, ends.line, 1)
    ends.far.send(frames.pack(1, b"why"))
    ends.far.close()
    heard.connection.send(frames.pack(1))
    heard.connection.send(frames.pack(1))
    assert heard.connection.pending == 0
    run(loop)
    assert (heard.frames, heard.closed) == ([(1, b"why")], ["broken pipe"])


def test_who_closes_only_what_it_reads_is_lost_a_little_later(ends: Ends) -> None:
    clock = Clock()
    heard = connection_of(clock.loop, ends.line)
    ends.far.shutdown(socket.SHUT_RD)
    heard.connection.send(frames.pack(1))
    clock.go(LAST_WORDS - 0.1)
    assert heard.closed == []
    clock.go(0.2)
    assert heard.closed == ["broken pipe"]


def test_a_handler_may_close_its_connection(ends: Ends) -> None:
    loop = Loop()
    heard: list[bytes] = []

    def once(body: bytes) -> None:
        heard.append(body)
        connection.close()
        loop.stop()

    connection = Connection(
        loop, ends.line, {1: once}, lambda _why: pytest.fail("of its own close")
    )
    ends.far.send(frames.pack(1, b"a") + frames.pack(1, b"b"))
    run(loop)
    assert heard == [b"a"]


def test_early_frames_come_before_later_ones(ends: Ends) -> None:
    loop = Loop()
    ends.far.send(frames.pack(1, b"waited for") + frames.pack(1, b"early"))
    assert ends.line.wait_for_one(10) == (1, b"waited for")
    ends.far.send(frames.pack(1, b"later"))
    heard = connection_of(loop, ends.line, 1, until=2)
    run(loop)
    assert heard.frames == [(1, b"early"), (1, b"later")]


def test_a_connection_remembers_when_it_heard_something(ends: Ends) -> None:
    now = [100.0]
    loop = Loop(lambda: now[0])
    heard = connection_of(loop, ends.line, 1, until=1)
    assert heard.connection.last_received == 100.0
    now[0] = 105.0
    ends.far.send(frames.pack(1))
    loop.run()
    assert heard.connection.last_received == 105.0


def test_buffered_frames_come_without_anything_behind_them(ends: Ends) -> None:
    loop = Loop()
    ends.far.send(frames.pack(1, b"waited for") + frames.pack(1, b"buffered"))
    assert ends.line.wait_for_one(10) == (1, b"waited for")
    heard = connection_of(loop, ends.line, 1, until=1)
    run(loop)
    assert heard.frames == [(1, b"buffered")]


def test_what_was_queued_before_is_written(ends: Ends) -> None:
    loop, got = Loop(), bytearray()

    def read() -> None:
        got.extend(ends.far.recv(1 << 20))
        if len(got) == len(BIG) + 5:
            loop.stop()

    ends.line.send(frames.pack(1, BIG))
    connection_of(loop, ends.line)
    loop.add_reader(ends.far.fileno(), read)
    run(loop)
    assert frames.Decoder().feed(bytes(got)) == [(1, BIG)]


def test_a_closed_connection_waits_for_nothing(ends: Ends) -> None:
    loop = Loop()
    heard = connection_of(loop, ends.line)
    heard.connection.send(frames.pack(1, BIG))
    fds = ends.line.read_fd, ends.line.write_fd
    assert (loop.has_reader(fds[0]), loop.has_writer(fds[1])) == (True, True)
    heard.connection.close()
    assert (loop.has_reader(fds[0]), loop.has_writer(fds[1])) == (False, False)
    assert heard.closed == []


def test_who_reads_nothing_is_to_blame(ends: Ends) -> None:
    heard = connection_of(Loop(), ends.line)
    room = UNREAD - 5
    heard.connection.send(frames.pack(1, bytes(room)))
    assert heard.connection.open
    heard.connection.send(frames.pack(1, bytes(len(BIG))))
    assert heard.closed == ["it is not reading from the connection"]
    assert heard.connection.fault == "it is not reading from the connection"


def test_a_line_that_ends_is_nobodys_fault(ends: Ends) -> None:
    loop = Loop()
    heard = connection_of(loop, ends.line)
    ends.far.close()
    run(loop)
    assert heard.closed == ["closed by the other end"]
    assert heard.connection.fault == ""


def test_a_fault_is_told_in_few_words(ends: Ends) -> None:
    loop, closed = Loop(), list[str]()

    def refuse(_body: bytes) -> None:
        raise frames.BadFrame("\x1b[2J" + "x" * 500)

    def end(reason: str) -> None:
        closed.append(reason)
        loop.stop()

    connection = Connection(loop, ends.line, {3: refuse}, end)
    ends.far.send(frames.pack(3))
    run(loop)
    whole = "it sent an invalid frame of kind 3: \\x1b[2J" + "x" * 500
    assert closed == [connection.fault] == [whole[:200]]


def test_an_end_is_seen_while_there_is_something_to_write(ends: Ends) -> None:
    loop = Loop()
    heard = connection_of(loop, ends.line)
    heard.connection.send(frames.pack(1, BIG))
    ends.far.close()
    run(loop)
    assert len(heard.closed) == 1
    assert not heard.connection.open
