"""One end of a control line, over real sockets."""

from __future__ import annotations

import os
import socket
import time
from contextlib import closing

import pytest

from dsrun.launcher.control import frames
from dsrun.launcher.control.stream import FrameStream, StreamClosed

from ..support.limits import HANG
from ..support.streams import BIG, Ends, ends

__all__ = ["ends"]


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
    with pytest.raises(StreamClosed, match=r"^closed by the other end$"):
        ends.line.receive()


def test_sending_to_an_end_that_is_gone(ends: Ends) -> None:
    ends.far.close()
    with pytest.raises(StreamClosed, match=r"^broken pipe$"):
        ends.line.send(frames.pack(1))


def test_a_line_that_was_closed_is_closed(ends: Ends) -> None:
    ends.line.close()
    ends.line.close()
    assert ends.far.recv(1) == b""
    with pytest.raises(StreamClosed, match="bad file descriptor"):
        ends.line.send(frames.pack(1))
    with pytest.raises(StreamClosed, match="bad file descriptor"):
        ends.line.receive()


def test_bytes_that_are_no_frames(ends: Ends) -> None:
    ends.far.send(b"GET / HTTP/1.1\r\n\r\n")
    with pytest.raises(StreamClosed, match=r"^not a control line: a frame of"):
        ends.line.receive()


def test_the_limit_can_be_lifted(ends: Ends) -> None:
    ends.line.limit(4)
    ends.far.send(frames.pack(1, b"1234"))
    assert ends.line.receive() == [(1, b"1234")]
    ends.line.limit(5)
    ends.far.send(frames.pack(1, b"12345"))
    assert ends.line.receive() == [(1, b"12345")]
    ends.far.send(frames.pack(1, b"123456"))
    with pytest.raises(StreamClosed, match=r"limit 5"):
        ends.line.receive()


def test_waiting_for_one_frame_keeps_the_rest(ends: Ends) -> None:
    assert ends.line.wait_for_one(0.01) is None
    ends.far.send(frames.pack(1, b"a") + frames.pack(2, b"b") + frames.pack(3, b"c"))
    assert ends.line.wait_for_one(HANG) == (1, b"a")
    assert ends.line.take_buffered() == [(2, b"b"), (3, b"c")]
    assert ends.line.take_buffered() == []
    ends.far.close()
    assert ends.line.wait_for_one(HANG) is None


class Counting(FrameStream):
    """A line that counts how often it is looked at."""

    looks = 0

    def receive(self) -> list[tuple[int, bytes]]:
        self.looks += 1
        return super().receive()


def test_who_waits_does_not_look_again_and_again() -> None:
    near, far = socket.socketpair()
    began = time.monotonic()
    with far, closing(Counting(fd := near.detach(), fd)) as line:
        assert line.wait_for_one(0.3) is None
        assert line.looks <= 3
    assert time.monotonic() - began >= 0.3


def test_a_frame_that_was_waited_for_in_passing_is_still_there(ends: Ends) -> None:
    assert not ends.line.wait(0.01)
    assert ends.line.take_buffered() == []
    ends.far.send(frames.pack(1, b"a") + frames.pack(2, b"b"))
    assert ends.line.wait(HANG)
    assert ends.line.take_buffered() == [(1, b"a"), (2, b"b")]
    ends.far.close()
    assert not ends.line.wait(HANG)


def test_a_closed_line_has_no_descriptors(ends: Ends) -> None:
    fds = ends.line.read_fd, ends.line.write_fd
    ends.line.close()
    assert (ends.line.read_fd, ends.line.write_fd) == (-1, -1)
    for fd in fds:
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(fd)


def test_neither_descriptor_blocks() -> None:
    (read_fd, far_write), (far_read, write_fd) = os.pipe(), os.pipe()
    with closing(FrameStream(read_fd, write_fd)):
        assert (os.get_blocking(read_fd), os.get_blocking(write_fd)) == (False, False)
    os.close(far_read)
    os.close(far_write)
