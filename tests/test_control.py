"""The control line: lines over real sockets, and links on a real loop."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import NamedTuple

import pytest

from dsrun.launcher.backends.stdio import SessionLine
from dsrun.launcher.common.loop import Loop
from dsrun.launcher.control import frames
from dsrun.launcher.control.line import Line, LineClosed
from dsrun.launcher.control.link import Link

BIG = b"x" * (3 << 20)
"""More than a socket's buffers hold."""


# -- lines over real sockets --------------------------------------------------------------------


class Ends(NamedTuple):
    """A line, and the bare socket at its other end."""

    line: Line
    far: socket.socket


@pytest.fixture
def ends() -> Iterator[Ends]:
    near, far = socket.socketpair()
    far.settimeout(10)
    fd = near.detach()
    line = Line(fd, os.dup(fd))
    with far, closing(line):
        yield Ends(line, far)


def test_frames_that_come_in_pieces(ends: Ends) -> None:
    whole = frames.pack(frames.BEAT, b"abc") + frames.pack(frames.BEAT)
    assert ends.line.receive() == []
    for at in range(len(whole)):
        ends.far.send(whole[at : at + 1])
        expected = {7: [(frames.BEAT, b"abc")], 12: [(frames.BEAT, b"")]}.get(at, [])
        assert ends.line.receive() == expected


def test_a_full_line_queues_and_keeps_order(ends: Ends) -> None:
    sent = [frames.pack(1, BIG), frames.pack(2, b"after"), frames.pack(3)]
    for frame in sent:
        ends.line.send(frame)
    assert 0 < ends.line.pending < sum(map(len, sent))
    got = bytearray()
    while len(got) < sum(map(len, sent)):
        got += ends.far.recv(1 << 20)
        ends.line.flush()
    assert bytes(got) == b"".join(sent)
    assert ends.line.pending == 0


def test_what_came_before_the_end_is_still_received(ends: Ends) -> None:
    ends.far.send(frames.pack(1, b"last") + frames.pack(1, b"cut")[:6])
    ends.far.close()
    assert ends.line.receive() == [(1, b"last")]
    with pytest.raises(LineClosed, match=r"^closed by the other end$"):
        ends.line.receive()


def test_sending_to_an_end_that_is_gone(ends: Ends) -> None:
    ends.far.close()
    with pytest.raises(LineClosed, match=r"^Broken pipe$"):
        ends.line.send(frames.pack(1))


def test_a_line_that_was_closed_is_closed(ends: Ends) -> None:
    ends.line.close()
    ends.line.close()
    assert ends.far.recv(1) == b""
    with pytest.raises(LineClosed, match="Bad file descriptor"):
        ends.line.send(frames.pack(1))
    with pytest.raises(LineClosed, match="Bad file descriptor"):
        ends.line.receive()


def test_bytes_that_are_no_frames(ends: Ends) -> None:
    ends.far.send(b"GET / HTTP/1.1\r\n\r\n")
    with pytest.raises(LineClosed, match=r"^not a control line: a frame of"):
        ends.line.receive()


def test_the_limit_can_be_lifted(ends: Ends) -> None:
    ends.line.limit(4)
    ends.far.send(frames.pack(1, b"1234"))
    assert ends.line.receive() == [(1, b"1234")]
    ends.line.limit(5)
    ends.far.send(frames.pack(1, b"12345"))
    assert ends.line.receive() == [(1, b"12345")]
    ends.far.send(frames.pack(1, b"123456"))
    with pytest.raises(LineClosed, match=r"at most 5"):
        ends.line.receive()


def test_waiting_for_one_frame_keeps_the_rest(ends: Ends) -> None:
    assert ends.line.wait_for_one(0.01) is None
    ends.far.send(frames.pack(1, b"a") + frames.pack(2, b"b") + frames.pack(3, b"c"))
    assert ends.line.wait_for_one(10) == (1, b"a")
    assert ends.line.early() == [(2, b"b"), (3, b"c")]
    assert ends.line.early() == []
    ends.far.close()
    assert ends.line.wait_for_one(10) is None


def test_a_sessions_noise_is_set_aside() -> None:
    stream = b"Welcome!\n\x00dsrun\n" + frames.MAGIC + frames.pack(1, b"a")
    for cut in range(len(stream)):
        near, far = socket.socketpair()
        with far, closing(SessionLine(fd := near.detach(), os.dup(fd))) as line:
            got = line.decode(stream[:cut]) + line.decode(stream[cut:])
            assert got == [(1, b"a")]
            assert line.noise == b"Welcome!\n\x00dsrun\n"


def test_a_session_of_nothing_but_noise_is_given_up() -> None:
    near, far = socket.socketpair()
    with far, closing(SessionLine(fd := near.detach(), os.dup(fd))) as line:
        assert line.decode(b"y" * frames.NOISE_LIMIT) == []
        with pytest.raises(LineClosed, match="no node launcher answered, only other output"):
            line.decode(b"y")


# -- links on a real loop -----------------------------------------------------------------------


class Heard(NamedTuple):
    """A link, and what it told."""

    link: Link
    frames: list[tuple[int, bytes]]
    closed: list[str]


def link_of(loop: Loop, line: Line, *kinds: int, until: int = 99) -> Heard:
    """Return a link that hears these kinds, and stops the loop at `until` frames or at its end."""
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

    return Heard(Link(loop, line, {kind: take(kind) for kind in kinds}, end), heard, closed)


def run(loop: Loop) -> None:
    """Run until somebody stops it; ten seconds are too long for anything here."""
    late: list[bool] = []

    def give_up() -> None:
        late.append(True)
        loop.stop()

    timer = loop.after(10.0, give_up)
    loop.run()
    timer.cancel()
    assert not late


def test_a_link_hands_out_frames_and_its_end(ends: Ends) -> None:
    loop = Loop()
    heard = link_of(loop, ends.line, 1, 2)
    ends.far.send(frames.pack(1, b"a") + frames.pack(2) + frames.pack(1, b"b"))
    ends.far.close()
    run(loop)
    assert heard.frames == [(1, b"a"), (2, b""), (1, b"b")]
    assert heard.closed == ["closed by the other end"]
    assert not heard.link.open
    heard.link.send(frames.pack(1))
    heard.link.close()
    assert heard.closed == ["closed by the other end"]


def test_a_link_writes_more_than_the_socket_holds(ends: Ends) -> None:
    loop = Loop()
    heard = link_of(loop, ends.line)
    got = bytearray()

    def read() -> None:
        got.extend(ends.far.recv(1 << 20))
        if len(got) == 2 * (len(BIG) + 5):
            loop.stop()

    loop.watch(ends.far.fileno(), 1, read)
    heard.link.send(frames.pack(1, BIG))
    heard.link.send(frames.pack(2, BIG))
    run(loop)
    assert frames.Decoder().feed(bytes(got)) == [(1, BIG), (2, BIG)]
    assert not loop.watching(ends.line.write_fd, 2)


@pytest.mark.parametrize(
    ("stream", "reason"),
    [
        (frames.pack(77, b"x"), "it sent an invalid frame: no kind 77 is expected"),
        (frames.pack(9, b"x"), "it sent an invalid frame of kind 9: not JSON: "),
        (b"\xff" * 5, "not a control line: a frame of 4294967295 bytes"),
    ],
)
def test_a_link_ends_at_nonsense(ends: Ends, stream: bytes, reason: str) -> None:
    loop = Loop()
    closed: list[str] = []

    def end(why: str) -> None:
        closed.append(why)
        loop.stop()

    def read(body: bytes) -> None:
        frames.unpack_json(body)

    Link(loop, ends.line, {9: read}, end)
    ends.far.send(stream)
    run(loop)
    assert [why[: len(reason)] for why in closed] == [reason]
    assert ends.far.recv(1) == b""


def test_a_link_notices_at_the_next_word_that_nobody_is_there(ends: Ends) -> None:
    loop = Loop()
    heard = link_of(loop, ends.line)
    ends.far.close()
    heard.link.send(frames.pack(1))
    assert heard.closed == ["Broken pipe"]


def test_a_handler_may_close_its_link(ends: Ends) -> None:
    loop = Loop()
    heard: list[bytes] = []

    def once(body: bytes) -> None:
        heard.append(body)
        link.close()
        loop.stop()

    link = Link(loop, ends.line, {1: once}, lambda _why: pytest.fail("told of its own close"))
    ends.far.send(frames.pack(1, b"a") + frames.pack(1, b"b"))
    run(loop)
    assert heard == [b"a"]


def test_early_frames_come_before_later_ones(ends: Ends) -> None:
    loop = Loop()
    ends.far.send(frames.pack(1, b"waited for") + frames.pack(1, b"early"))
    assert ends.line.wait_for_one(10) == (1, b"waited for")
    ends.far.send(frames.pack(1, b"later"))
    heard = link_of(loop, ends.line, 1, until=2)
    run(loop)
    assert heard.frames == [(1, b"early"), (1, b"later")]


def test_a_link_remembers_when_it_heard_something(ends: Ends) -> None:
    now = [100.0]
    loop = Loop(lambda: now[0])
    heard = link_of(loop, ends.line, 1, until=1)
    assert heard.link.heard == 100.0
    now[0] = 105.0
    ends.far.send(frames.pack(1))
    loop.run()
    assert heard.link.heard == 105.0
