"""A stream of the runner's own that a thread writes."""

from __future__ import annotations

import errno
import fcntl
import os
import threading
from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

import pytest

from dsrun.launcher.head.output.writer import AT_ONCE, Writer

from ...support.limits import HANG

LONG = HANG
"""Seconds that nothing here takes."""

BIG = b"x" * (1 << 20)
"""More than a pipe holds."""


class Pipe(NamedTuple):
    """A pipe whose writing end a Writer has."""

    read_fd: int
    write_fd: int

    def read(self, size: int) -> bytes:
        """Return so many bytes, as they come."""
        data = b""
        while len(data) < size:
            data += os.read(self.read_fd, size - len(data))
        return data


@pytest.fixture
def pipe() -> Iterator[Pipe]:
    pipe = Pipe(*os.pipe())
    yield pipe
    for fd in pipe:
        os.close(fd)


def fail(number: int) -> None:
    pytest.fail(os.strerror(number))


def test_blocks_are_written_in_order_and_each_is_told(pipe: Pipe) -> None:
    writer = Writer(pipe.write_fd, fail)
    told: list[int] = []
    writer.put(b"a")
    writer.put(b"b", lambda: told.append(1))
    writer.put(b"", lambda: told.append(2))
    writer.put(b"c", lambda: told.append(3))
    assert writer.close(LONG)
    assert pipe.read(3) == b"abc"
    assert told == [1, 2, 3]


def test_a_stalled_reader_stalls_the_thread_alone(pipe: Pipe) -> None:
    writer, out = Writer(pipe.write_fd, fail), threading.Event()
    writer.put(BIG, out.set)
    writer.put(b"end")
    assert not writer.close(0.01)
    assert not out.is_set()
    assert pipe.read(len(BIG) + 3) == BIG + b"end"
    assert writer.close(LONG)
    assert out.is_set()


def test_a_descriptor_that_somebody_has_made_non_blocking(pipe: Pipe) -> None:
    os.set_blocking(pipe.write_fd, False)
    writer = Writer(pipe.write_fd, fail)
    writer.put(BIG)
    assert pipe.read(len(BIG)) == BIG
    assert writer.close(LONG)


def test_what_waits_is_written_at_once_but_not_without_bound(pipe: Pipe) -> None:
    """While the first write is stalled, others come; they go out together up to AT_ONCE bytes."""
    size = fcntl.fcntl(pipe.write_fd, fcntl.F_GETPIPE_SZ)
    sizes: list[int] = []

    class Counting(Writer):
        def _write(self, data: bytes) -> None:
            sizes.append(len(data))
            super()._write(data)

    writer = Counting(pipe.write_fd, fail)
    writer.put(b"y" * (size + 1))
    while not sizes:
        threading.Event().wait(0.001)
    half = b"z" * (AT_ONCE // 2)
    for _ in range(5):
        writer.put(half)
    pipe.read(size + 1 + 5 * len(half))
    assert writer.close(LONG)
    assert sizes == [size + 1, AT_ONCE, AT_ONCE, AT_ONCE // 2]


def test_a_reader_that_is_gone_is_told_once_and_nothing_waits_for_it() -> None:
    read_fd, write_fd = os.pipe()
    os.close(read_fd)
    failures: list[int] = []
    told: list[int] = []
    writer = Writer(write_fd, failures.append)
    for number in range(3):
        writer.put(BIG, partial(told.append, number))
    assert writer.close(LONG)
    os.close(write_fd)
    assert failures == [errno.EPIPE]
    assert told == [0, 1, 2]


def test_the_thread_is_named_and_ends_no_process(pipe: Pipe) -> None:
    writer = Writer(pipe.write_fd, fail)
    (thread,) = [one for one in threading.enumerate() if one.name == f"write-{pipe.write_fd}"]
    assert thread.daemon
    assert writer.close(LONG)
    assert not thread.is_alive()
