"""What is typed at a terminal, on its way through a pipe."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from dsrun.launcher.features.exec.command_input_pipe import InputPipe

from ...support.clock import Clock
from ...support.leaks import open_files

if TYPE_CHECKING:
    from collections.abc import Iterator

BIG = b"x" * (1 << 20)


class Copied:
    """An input, and the pipe that it is copied to."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.source, self.input = os.pipe()
        os.set_blocking(self.input, False)
        self.pipe = InputPipe(self.clock.loop, self.source)
        os.set_blocking(self.pipe.read_fd, False)

    def read(self) -> bytes | None:
        """What has arrived; None for nothing."""
        self.clock.settle()
        try:
            return os.read(self.pipe.read_fd, len(BIG))
        except BlockingIOError:
            return None


@pytest.fixture
def copied() -> Iterator[Copied]:
    made = Copied()
    yield made
    for fd in (made.source, made.pipe.read_fd):
        os.close(fd)


def test_lines_and_the_end(copied: Copied) -> None:
    assert copied.read() is None
    os.write(copied.input, b"one\n")
    assert copied.read() == b"one\n"
    os.write(copied.input, b"two\n")
    os.close(copied.input)
    assert copied.read() == b"two\n"
    assert copied.read() == b""


def test_no_more_is_read_than_fits_into_the_pipe(copied: Copied) -> None:
    sent = 0
    for _ in range(100):
        try:
            sent += os.write(copied.input, BIG)
        except BlockingIOError:
            break
        copied.clock.settle()
    assert 0 < sent < len(BIG)
    got = 0
    while data := copied.read():
        got += len(data)
    assert got == sent
    os.close(copied.input)
    assert copied.read() == b""


def test_a_reader_that_is_gone_ends_it() -> None:
    clock = Clock()
    before = open_files()
    source, end = os.pipe()
    pipe = InputPipe(clock.loop, source)
    os.close(pipe.read_fd)
    os.write(end, b"for nobody")
    clock.settle()
    clock.settle()
    os.close(source)
    os.close(end)
    assert open_files() == before


def test_a_terminal_that_is_gone_is_the_end() -> None:
    clock = Clock()
    ours, theirs = os.openpty()
    os.close(ours)
    pipe = InputPipe(clock.loop, theirs)
    clock.settle()
    os.set_blocking(pipe.read_fd, False)
    assert os.read(pipe.read_fd, 9) == b""
    os.close(pipe.read_fd)
    os.close(theirs)
