"""Both ends of a measured connection, over the loopback interface."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
import time
from contextlib import contextmanager, suppress
from itertools import count
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from dsrun.launcher.common.errors import NodeError
from dsrun.launcher.features.full_check.node_streams import (
    BLOCK,
    LAST,
    MORE,
    WORD,
    StreamCaller,
    counters,
    prepare,
    proof,
    rates,
    receive,
    receive_stream,
    send_stream,
    serve_caller,
)

from ...support.limits import HANG

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

TOKEN = "0123456789abcdef" * 2


@contextmanager
def connected() -> Iterator[tuple[socket.socket, socket.socket]]:
    """Two ends of a TCP connection."""
    with socket.create_server(("127.0.0.1", 0)) as door:
        ours = socket.create_connection(door.getsockname())
        theirs, _ = door.accept()
    with ours, theirs:
        yield ours, theirs


@contextmanager
def played(part: Callable[[socket.socket], object]) -> Iterator[socket.socket]:
    """One end; the other one is played by a thread until it ends."""

    def run(line: socket.socket) -> None:
        with suppress(OSError), line:
            part(line)

    with connected() as (ours, theirs):
        thread = threading.Thread(target=run, args=(theirs,))
        thread.start()
        try:
            yield ours
        finally:
            ours.close()
            thread.join(HANG)
            assert not thread.is_alive()


@pytest.fixture
def caller() -> Iterator[StreamCaller]:
    with played(lambda line: serve_caller(line, TOKEN)) as line:
        yield StreamCaller(line, TOKEN)


def test_round_trips_are_sorted_and_at_most_so_many(caller: StreamCaller) -> None:
    times = caller.round_trips(20, HANG)
    assert len(times) == 20
    assert times == sorted(times)
    assert 0 < times[0] < 0.1


def test_there_is_a_round_trip_however_short_the_time(caller: StreamCaller) -> None:
    assert len(caller.round_trips(20, 0.0)) == 1


def test_streams_are_measured_in_both_directions_one_after_another(caller: StreamCaller) -> None:
    streams = [caller.send(0.02), caller.fetch(0.02), caller.send(0.0), caller.fetch(0.0)]
    assert all(one.free >= one.rate > 1e5 for one in streams)
    assert len(caller.round_trips(3, 1.0)) == 3


def test_segments_are_counted_at_both_ends(caller: StreamCaller) -> None:
    before = caller.counters()
    caller.send(0.02)
    after = caller.counters()
    assert after[0] > before[0] > 0
    assert after[2] >= before[2] > 0


def test_counters_are_those_of_the_kernel() -> None:
    with connected() as (ours, theirs):
        for _ in range(5):
            ours.sendall(b"x")
            receive(theirs, 1)
        assert counters(ours) == (5, 0)
        assert counters(theirs) == (0, 0)


def test_a_caller_without_the_token_is_dropped() -> None:
    with played(lambda line: serve_caller(line, TOKEN)) as line, pytest.raises(ConnectionError):
        StreamCaller(line, "f" * len(TOKEN))


def test_another_program_is_no_node() -> None:
    """Not even one that echoes the token."""
    with (
        played(lambda line: line.sendall(line.recv(100))) as line,
        pytest.raises((NodeError, OSError)),
    ):
        StreamCaller(line, TOKEN)
    with (
        played(lambda line: line.sendall(bytes(len(proof(TOKEN))))) as line,
        pytest.raises(NodeError, match="another program"),
    ):
        StreamCaller(line, TOKEN)


def test_an_unknown_order_is_ignored(caller: StreamCaller) -> None:
    caller._line.sendall(WORD.pack(b"what", float("nan")))
    assert len(caller.round_trips(1, 1.0)) == 1


def test_the_rate_is_that_after_the_first_block() -> None:
    stream = b"".join(mark + bytes(BLOCK - 1) for mark in (MORE, MORE, MORE, LAST))
    began = time.monotonic()
    with played(lambda line: line.sendall(stream)) as line:
        size, seconds, waits = receive_stream(line)
    assert size == 3 * BLOCK
    assert 0 < seconds <= time.monotonic() - began
    assert 0 <= waits <= time.monotonic() - began


def test_a_stream_goes_on_for_so_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each look at the clock is a second later."""
    seconds = count()
    clock = SimpleNamespace(monotonic=lambda: next(seconds))
    monkeypatch.setattr("dsrun.launcher.features.full_check.node_streams.time", clock)
    with played(lambda line: send_stream(line, 2.5)) as line:
        stream = receive(line, 4 * BLOCK)
        assert line.recv(1) == b""
    assert [stream[at : at + 1] for at in range(0, 4 * BLOCK, BLOCK)] == [MORE, MORE, MORE, LAST]


def test_the_time_without_a_core_is_not_that_of_the_network() -> None:
    assert rates(1e6, 1.0, 0.0) == (1e6, 1e6)
    assert rates(1e6, 1.0, 0.5) == (1e6, 2e6)
    assert rates(1e6, 1.0, 3.0) == (1e6, 2e7)
    assert rates(0.0, 0.0, 0.0) == (0.0, 0.0)


def test_the_kernel_counts_the_time_without_a_core() -> None:
    """Two processes that compete for one core."""
    code = """
import os, threading, time
from dsrun.launcher.features.full_check.node_streams import waited
os.sched_setaffinity(0, [min(os.sched_getaffinity(0))])
ours = os.getpid()
other = os.fork()
if other == 0:
    while os.getppid() == ours: pass
    os._exit(0)
began, before = time.monotonic(), waited()
while time.monotonic() < began + 0.5: pass
print(waited() - before, time.monotonic() - began)
os.kill(other, 9)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    without, in_all = map(float, done.stdout.split())
    assert 0.1 < without <= in_all


def test_an_end_in_the_middle_is_an_error() -> None:
    with connected() as (ours, theirs):
        theirs.sendall(b"x")
        theirs.close()
        with pytest.raises(ConnectionResetError, match="the connection was closed"):
            receive(ours, 2)


def test_nothing_is_waited_for_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dsrun.launcher.features.full_check.node_streams.STALL", 1)
    with connected() as (ours, _theirs):
        prepare(ours)
        with pytest.raises(TimeoutError, match="nothing arrived for 1 s"):
            receive(ours, 1)
        with pytest.raises(TimeoutError, match="nothing could be sent for 1 s"):
            send_stream(ours, 60.0)
