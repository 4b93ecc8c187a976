"""Heartbeats of a node, on a clock that goes when told."""

from __future__ import annotations

import os
import socket
from typing import TYPE_CHECKING

import pytest

from dsrun.launcher.control import frames
from dsrun.launcher.control.connection import Connection
from dsrun.launcher.control.stream import FrameStream
from dsrun.launcher.node.session.heartbeats import Heartbeats

from ...support.clock import Clock

if TYPE_CHECKING:
    from collections.abc import Iterator


class Watched:
    """Heartbeats to a socket, and what has come of them."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.socket, theirs = socket.socketpair()
        self.socket.setblocking(False)
        with theirs:
            line = FrameStream(os.dup(theirs.fileno()), os.dup(theirs.fileno()))
        handlers = {frames.BEAT: lambda _body: None}
        self.link = Connection(self.clock.loop, line, handlers, print)
        self.lost: list[str] = []
        self.beats = Heartbeats(self.clock.loop, self.link, self.lost.append)
        self.beats.lease = 16.0

    def sent(self) -> list[int]:
        """The kinds of frames since the last time."""
        try:
            data = self.socket.recv(65536)
        except BlockingIOError:
            return []
        return [kind for kind, _ in frames.Decoder().feed(data)]

    def hear(self) -> None:
        """Have the runner send a heartbeat."""
        self.socket.send(frames.pack(frames.BEAT))
        self.clock.go(0.0)


@pytest.fixture
def watched() -> Iterator[Watched]:
    """Heartbeats with a lease of 16 seconds."""
    one = Watched()
    yield one
    one.link.close()
    one.socket.close()


def test_they_are_sent_sixteen_times_in_the_lease(watched: Watched) -> None:
    watched.clock.go(5.0)
    assert watched.sent() == []
    watched.beats.beat()
    for _ in range(20):
        watched.clock.go(1.0)
        watched.hear()
    assert watched.sent() == [frames.BEAT] * 21
    assert watched.lost == []


def test_another_beginning_does_not_double_them(watched: Watched) -> None:
    watched.beats.beat()
    watched.beats.beat()
    for _ in range(10):
        watched.clock.go(1.0)
    assert len(watched.sent()) == 12


def test_whoever_keeps_the_loop_waiting_knows_when_the_next_one_is_due(watched: Watched) -> None:
    assert not watched.beats.is_due, "they have not begun"
    watched.beats.beat()
    assert not watched.beats.is_due
    watched.clock.now += 1.0
    assert watched.beats.is_due
    watched.beats.beat()
    assert not watched.beats.is_due
    assert watched.sent() == [frames.BEAT] * 2


def test_a_silent_runner_is_lost_after_the_lease(watched: Watched) -> None:
    watched.beats.beat()
    for _ in range(31):
        watched.clock.go(0.5)
    assert watched.lost == []
    watched.clock.go(0.5)
    assert watched.lost == ["no heartbeat from the runner for 16 s"]
    watched.clock.go(50.0)
    assert len(watched.lost) == 1


def test_silence_is_counted_anew_after_what_took_long(watched: Watched) -> None:
    watched.beats.beat()
    watched.link.last_received -= 15.0
    watched.beats.count_anew()
    for _ in range(15):
        watched.clock.go(1.0)
    assert watched.lost == []


def test_a_suspended_runner_is_not_waited_for(watched: Watched) -> None:
    watched.beats.beat()
    watched.sent()
    watched.beats.on_lease(b"hold")
    assert watched.sent() == [frames.SUSPEND]
    for _ in range(50):
        watched.clock.go(1.0)
    assert watched.lost == []
    watched.beats.on_lease(b"count")
    watched.clock.go(1.0)
    assert len(watched.lost) == 1


def test_nothing_is_sent_on_a_closed_line(watched: Watched) -> None:
    watched.link.close()
    watched.beats.beat()
    watched.clock.go(50.0)
    assert watched.lost == []
