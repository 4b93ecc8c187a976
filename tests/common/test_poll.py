"""Waiting for descriptors: real pipes, with numbers below and above what select(2) takes."""

from __future__ import annotations

import fcntl
import os
from typing import TYPE_CHECKING

import pytest

from dsrun.launcher.common.poll import WRITE, ready

from ..support.limits import HANG, NEVER

if TYPE_CHECKING:
    from collections.abc import Iterator

Pipe = tuple[int, int]


@pytest.fixture(params=[3, 1500])
def pipe(request: pytest.FixtureRequest) -> Iterator[Pipe]:
    """Both ends of a pipe, with numbers from this one on."""
    ends = os.pipe()
    found = [fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, request.param) for end in ends]
    for end in ends:
        os.close(end)
    yield (found[0], found[1])
    for end in found:
        os.close(end)


def test_what_can_be_read_is_ready_and_nothing_else(pipe: Pipe) -> None:
    assert ready(pipe, 0) == []
    os.write(pipe[1], b"x")
    assert ready(pipe, NEVER) == [pipe[0]]
    assert ready([pipe[0]], None) == [pipe[0]]


def test_what_can_be_written_is_ready(pipe: Pipe) -> None:
    assert ready([pipe[1]], NEVER, WRITE) == [pipe[1]]
    os.set_blocking(pipe[1], False)
    os.write(pipe[1], b"x" * fcntl.fcntl(pipe[1], fcntl.F_GETPIPE_SZ))
    assert ready([pipe[1]], 0.01, WRITE) == []


def test_the_end_is_ready() -> None:
    read_end, write_end = os.pipe()
    os.close(write_end)
    assert ready([read_end], HANG) == [read_end]
    os.close(read_end)


def test_a_limit_that_is_over_is_a_look(pipe: Pipe) -> None:
    assert ready(pipe, -5.0) == []
