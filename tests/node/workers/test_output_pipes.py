"""One stream of one worker: read in blocks, logged in full, its end kept."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from dsrun.launcher.node.workers.output_pipes import BLOCK, TAIL, OutputPipe


class Log:
    """A log that records what it gets."""

    def __init__(self) -> None:
        self.data = b""

    def write(self, data: bytes) -> None:
        self.data += data


@pytest.fixture
def ends() -> Iterator[tuple[OutputPipe, Log, int]]:
    read, write = os.pipe()
    os.set_blocking(read, False)
    log = Log()
    pipes = OutputPipe(read, log.write)
    yield pipes, log, write
    pipes.close()


def test_there_may_be_nothing_yet_and_then_an_end(ends: tuple[OutputPipe, Log, int]) -> None:
    pipes, log, write = ends
    assert pipes.read() is None
    os.write(write, b"text")
    assert pipes.read() == b"text"
    os.close(write)
    assert pipes.read() == b""
    assert (log.data, pipes.tail) == (b"text", b"text")


def test_a_block_at_a_time_and_the_tail_is_the_end(ends: tuple[OutputPipe, Log, int]) -> None:
    pipes, log, write = ends
    data = bytes(number % 251 for number in range(BLOCK))
    os.write(write, data)
    assert pipes.read() == data
    assert (log.data, pipes.tail) == (data, data[-TAIL:])
    os.write(write, b"!")
    assert pipes.read() == b"!"
    assert pipes.tail == data[1 - TAIL :] + b"!"
    os.close(write)


def test_what_is_still_in_the_pipe_is_kept_and_it_is_closed_once(
    ends: tuple[OutputPipe, Log, int],
) -> None:
    """A process that still has the other end open does not delay the end."""
    pipes, log, write = ends
    os.write(write, b"last words")
    pipes.finish()
    assert (log.data, pipes.fd) == (b"last words", -1)
    pipes.finish()
    pipes.close()
    with pytest.raises(BrokenPipeError):
        os.write(write, b"more")
    os.close(write)


def test_without_a_log_the_tail_is_kept_all_the_same() -> None:
    read, write = os.pipe()
    pipes = OutputPipe(read)
    os.write(write, b"x")
    os.close(write)
    pipes.finish()
    assert pipes.tail == b"x"
