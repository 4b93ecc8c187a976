"""What a session prints before its node launcher answers."""

from __future__ import annotations

import os
import socket
from contextlib import closing

import pytest

from dsrun.launcher.backends.stdio import SessionStream
from dsrun.launcher.control import frames
from dsrun.launcher.control.stream import StreamClosed


def test_a_sessions_noise_is_set_aside() -> None:
    stream = b"Welcome!\n\x00dsrun\n" + frames.MAGIC + frames.pack(1, b"a")
    for cut in range(len(stream)):
        near, far = socket.socketpair()
        with far, closing(SessionStream(fd := near.detach(), os.dup(fd))) as line:
            got = line.decode(stream[:cut]) + line.decode(stream[cut:])
            assert got == [(1, b"a")]
            assert line.noise == b"Welcome!\n\x00dsrun\n"


def test_a_session_of_nothing_but_noise_is_given_up() -> None:
    near, far = socket.socketpair()
    with far, closing(SessionStream(fd := near.detach(), os.dup(fd))) as line:
        assert line.decode(b"y" * frames.NOISE_LIMIT) == []
        with pytest.raises(
            StreamClosed, match="no node launcher answered: only other output was received"
        ):
            line.decode(b"y")
