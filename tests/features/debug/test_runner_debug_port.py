"""The port at which an editor reaches a rank."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from dsrun.launcher.common.loop import Loop
from dsrun.launcher.features.debug.runner_debug_port import DebugPort

from ...support.local_control import NOBODY, needs_root
from .loopback import connect

if TYPE_CHECKING:
    import socket
    from collections.abc import Iterator


class Guarded:
    """A port, those that it has let in, and how many it has not."""

    def __init__(self) -> None:
        self.loop = Loop()
        self.inside: list[socket.socket] = []
        self.refused = 0
        self.port = DebugPort(self.loop, self.inside.append, self._refuse)
        self.outside: list[socket.socket] = []

    def _refuse(self) -> None:
        self.refused += 1

    def knock(self) -> None:
        self.outside.append(connect(self.port.port))

    def run(self) -> int:
        """Let happen what happens at once; return how many are inside."""
        for _ in range(3):
            self.loop.call_later(0.0, self.loop.stop)
            self.loop.run()
        return len(self.inside)

    def close(self) -> None:
        self.port.close()
        for one in (*self.inside, *self.outside):
            one.close()


@pytest.fixture
def guarded() -> Iterator[Guarded]:
    made = Guarded()
    yield made
    made.close()


def test_one_is_let_in_each_time_that_it_is_opened(guarded: Guarded) -> None:
    guarded.knock()
    assert guarded.run() == 0
    guarded.port.open()
    guarded.knock()
    assert guarded.run() == 1
    guarded.port.open()
    guarded.port.open()
    assert guarded.run() == 2
    guarded.port.close()
    guarded.port.open()
    with pytest.raises(ConnectionRefusedError):
        guarded.knock()


@needs_root
def test_another_user_is_not_let_in_and_keeps_nobody_out(guarded: Guarded) -> None:
    os.seteuid(NOBODY)
    try:
        guarded.knock()
        guarded.knock()
    finally:
        os.seteuid(0)
    guarded.outside.pop().close()
    guarded.knock()
    guarded.port.open()
    assert guarded.run() == 1
    assert guarded.refused == 1, "the other one has gone, whoever it was"
    assert guarded.inside[0].getpeername() == guarded.outside[-1].getsockname()
    assert guarded.outside[0].recv(1) == b"", "hung up"


def test_who_has_left_again_is_not_called_another_user(guarded: Guarded) -> None:
    guarded.knock()
    guarded.outside.pop().close()
    guarded.knock()
    guarded.port.open()
    assert (guarded.run(), guarded.refused) == (1, 0)
    assert guarded.inside[0].getpeername() == guarded.outside[0].getsockname()
