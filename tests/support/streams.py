"""A control line over a real socket pair."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import closing
from typing import NamedTuple

import pytest

from dsrun.launcher.control.stream import FrameStream

from .limits import HANG

BIG = b"x" * (3 << 20)
"""More than a socket's buffers hold."""


class Ends(NamedTuple):
    """A line, and the bare socket at its other end."""

    line: FrameStream
    far: socket.socket


@pytest.fixture
def ends() -> Iterator[Ends]:
    near, far = socket.socketpair()
    far.settimeout(HANG)
    fd = near.detach()
    line = FrameStream(fd, os.dup(fd))
    with far, closing(line):
        yield Ends(line, far)
