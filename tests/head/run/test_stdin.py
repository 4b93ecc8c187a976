"""Standard input on its way to rank 0: no more than a window of it is under way."""

from __future__ import annotations

import os
import tempfile
from typing import TYPE_CHECKING

import pytest

from dsrun.launcher.control import frames
from dsrun.launcher.head.run.stdin import BLOCK, WINDOW, Stdin

from ...support.clock import Clock

if TYPE_CHECKING:
    from collections.abc import Iterator


class Reader:
    """A standard input that is read; what was sent of it."""

    def __init__(self, fd: int = 0) -> None:
        self.clock = Clock()
        self.sent: list[bytes] = []
        self.stdin = Stdin(self.clock.loop, self.send, fd)

    def send(self, frame: bytes) -> None:
        ((kind, body),) = frames.Decoder().feed(frame)
        assert kind == frames.INPUT
        self.sent.append(bytes(body))

    @property
    def size(self) -> int:
        return sum(map(len, self.sent))


@pytest.fixture
def given() -> Iterator[int]:
    """What stands in for descriptor 0: a pipe, of which this is the end to write to."""
    kept = os.dup(0)
    read, write = os.pipe()
    os.dup2(read, 0)
    os.close(read)
    yield write
    os.dup2(kept, 0)
    os.close(kept)


def test_input_is_passed_on_as_it_comes_and_its_end_is_told(given: int) -> None:
    reader = Reader()
    reader.clock.settle()
    assert reader.sent == []
    os.write(given, b"line\n")
    reader.clock.settle()
    os.close(given)
    reader.clock.settle()
    assert reader.sent == [b"line\n", b""]
    reader.stdin.took(5)
    reader.clock.settle()
    assert reader.sent == [b"line\n", b""], "the end is told once"


def test_another_descriptor_is_read_instead() -> None:
    read_fd, write_fd = os.pipe()
    reader = Reader(read_fd)
    os.write(write_fd, b"given")
    reader.clock.settle()
    os.close(write_fd)
    reader.clock.settle()
    assert reader.sent == [b"given", b""]
    os.close(read_fd)


def test_an_input_that_cannot_be_read_is_at_its_end() -> None:
    read_fd, write_fd = os.openpty()
    reader = Reader(read_fd)
    os.close(write_fd)
    reader.clock.settle()
    assert reader.sent == [b""]
    os.close(read_fd)


def test_a_window_is_under_way_and_no_more(given: int) -> None:
    reader = Reader()
    os.set_blocking(given, False)
    for _ in range(2 * WINDOW // BLOCK):
        try:
            os.write(given, b"x" * BLOCK)
        except BlockingIOError:
            break
        reader.clock.settle()
    assert WINDOW <= reader.size < WINDOW + BLOCK
    before = reader.size
    reader.stdin.took(before - WINDOW + 1)
    reader.clock.settle()
    assert reader.size > before, "what was taken makes room"
    os.close(given)


def test_a_file_is_read_the_same_way() -> None:
    """epoll(7) refuses to wait for one."""
    kept = os.dup(0)
    with tempfile.TemporaryFile() as file:
        file.write(b"y" * (WINDOW + 3))
        file.seek(0)
        os.dup2(file.fileno(), 0)
        try:
            reader = Reader()
            reader.clock.settle()
            assert reader.size == WINDOW
            reader.stdin.took(WINDOW)
            reader.clock.settle()
            assert (reader.size, reader.sent[-1]) == (WINDOW + 3, b"")
        finally:
            os.dup2(kept, 0)
            os.close(kept)


def test_nobody_takes_more_than_was_sent(given: int) -> None:
    reader = Reader()
    os.write(given, b"four")
    reader.clock.settle()
    with pytest.raises(frames.BadFrame, match="5 bytes of input read, but only 4 sent"):
        reader.stdin.took(5)
    reader.stdin.took(4)
    with pytest.raises(frames.BadFrame):
        reader.stdin.took(1)
    os.close(given)


def test_once_closed_nothing_more_is_read(given: int) -> None:
    reader = Reader()
    os.write(given, b"one\n")
    reader.clock.settle()
    reader.stdin.close()
    os.write(given, b"two\n")
    reader.clock.settle()
    reader.stdin.took(4)
    reader.clock.settle()
    assert reader.sent == [b"one\n"]


@pytest.mark.usefixtures("given")
def test_once_closed_a_file_is_not_read_either() -> None:
    with tempfile.TemporaryFile() as file:
        file.write(bytes(WINDOW))
        file.seek(0)
        os.dup2(file.fileno(), 0)
        reader = Reader()
        reader.stdin.close()
        reader.clock.settle()
    assert reader.sent == []
