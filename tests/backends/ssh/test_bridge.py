"""The bridge between a session of paramiko, which is in threads, and a control line."""

from __future__ import annotations

import os
import select
import threading
from contextlib import contextmanager, suppress
from itertools import count
from typing import TYPE_CHECKING, cast

import pytest
from paramiko import Channel

from dsrun.launcher.backends.ssh.bridge import Bridge
from dsrun.launcher.backends.ssh.client import SshSessions
from dsrun.launcher.resources.hostfile import Host

from ...support.limits import HANG

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType
    from typing import Any

LINES = 60
"""More than what a bridge runs of paramiko's when it waits, reads and waits again."""


class Sessions:
    """Opens one session, without a server: the test feeds its channel."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel

    def open(self, *_: object) -> Channel:
        return self._channel

    def close(self, _: Channel) -> int:
        return 0


@contextmanager
def bridged(channel: Channel) -> Iterator[int]:
    """Yield the loop's end of a bridge over this channel, which ends without a failure."""
    causes: list[str] = []
    bridge = Bridge(cast("SshSessions", Sessions(channel)), Host("n1", (0,)), "", causes.append)
    thread = threading.Thread(target=lambda: causes.append(bridge.run()))
    thread.start()
    try:
        yield bridge.fd
    finally:
        cast("Any", channel)._handle_eof(None)
        thread.join(HANG)
        for fd in (bridge.fd, bridge.write_fd):
            with suppress(OSError):
                os.close(fd)
    assert causes == [""]


@contextmanager
def at_line(number: int, act: Callable[[], bool]) -> Iterator[threading.Event]:
    """Let new threads act once, at their line of this number in paramiko, or when it allows it.

    The event is set then.
    """
    acted, lines = threading.Event(), count(1)

    def trace(frame: FrameType, event: str, _: object) -> Any:
        if event == "line" and not acted.is_set() and next(lines) >= number and act():
            acted.set()
        return trace if "paramiko" in frame.f_code.co_filename else None

    threading.settrace(trace)
    try:
        yield acted
    finally:
        threading.settrace(None)


def received(fd: int) -> bytes:
    """Return what arrives up to a full stop, or within the time that only a hang takes."""
    got = b""
    while not got.endswith(b".") and select.select([fd], [], [], HANG)[0]:
        got += os.read(fd, 64)
    return got


@pytest.mark.parametrize("read", ["in_buffer", "in_stderr_buffer"])
def test_what_a_host_prints_arrives_whenever_the_other_stream_is_read(read: str) -> None:
    """The streams are fed in a thread of paramiko, between any two steps of a reader."""
    for line in range(1, LINES):
        _the_other_is_fed_at(line, read)


def _the_other_is_fed_at(line: int, read: str) -> None:
    channel = Channel(0)
    one, other = channel.in_buffer, channel.in_stderr_buffer
    if read == "in_stderr_buffer":
        one, other = other, one

    def feed() -> bool:
        if cast("Any", other)._lock.locked():  # the thread that feeds would wait
            return False
        other.feed(b"-")
        return True

    one.feed(b"-")
    with at_line(line, feed) as acted, bridged(channel) as fd:
        while not acted.wait(0.01):
            one.feed(b"-")
        channel.in_buffer.feed(b".")
        assert received(fd).endswith(b"."), f"fed at line {line} of paramiko's"
