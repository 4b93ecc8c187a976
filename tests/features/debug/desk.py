"""Ranks that are debugged on nodes that a test plays."""

from __future__ import annotations

import re
import socket
from typing import TYPE_CHECKING, Any

import pytest

from dsrun.launcher.control import frames, messages
from dsrun.launcher.control.command_messages import CommandExit
from dsrun.launcher.head.doors import observe
from dsrun.launcher.head.run.run_state import RunState
from dsrun.launcher.specs.policies import DebugPolicy

from ...support.limits import wait_for
from .loopback import connect, on_the_way

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ...support.fake_fleet import FakeFleet


class Desk:
    """A job whose rank 1, on n0, is debugged, and whoever sits at its ports."""

    def __init__(self, job: FakeFleet, policy: DebugPolicy) -> None:
        self.job = job
        self.run = job.prepare(debug=policy)
        observe(self.run)
        self.run.start()
        job.step()
        job.begin_workers(self.run)
        self.lines = job.said()
        self.editors: list[socket.socket] = []

    @property
    def port(self) -> int:
        """The port of the rank, as the user is told."""
        found = re.search(r"at 127\.0\.0\.1:(\d+);", "\n".join(self.lines))
        assert found
        return int(found[1])

    def connect(self) -> socket.socket:
        """Sit down."""
        line = connect(self.port)
        self.editors.append(line)
        self.job.step()
        return line

    def says(self, line: socket.socket, data: bytes) -> None:
        """Have an editor send something."""
        line.sendall(data)
        self._step_after(line)

    def leaves(self, line: socket.socket) -> None:
        """Have an editor go."""
        line.shutdown(socket.SHUT_WR)
        self._step_after(line)
        line.close()

    def _step_after(self, line: socket.socket) -> None:
        wait_for(lambda: not on_the_way(line), "what an editor has sent to arrive")
        self.job.step()

    def sent(self) -> list[Any]:
        """What the node was sent about commands: [kind, value]."""
        return [one for one in self.job.news("n0") if one[0].startswith("EXEC")]

    def prints(self, number: int, data: bytes, stream: int = 1) -> None:
        """Have the program of an editor print something."""
        body = bytes([stream]) + data
        self.job.node("n0").says(frames.pack_numbered(frames.EXEC_OUTPUT, number, body))
        self.job.step()

    def exits(self, number: int, code: int = 0) -> None:
        """Have it end."""
        ended = CommandExit(number, code, "")
        self.job.node("n0").says(messages.pack(frames.EXEC_EXIT, ended))
        self.job.step()

    def close(self) -> None:
        """Leave, and have the job end."""
        self.run.handle(RunState.finish)
        self.job.go(1.0)  # a lost node may be explained
        self.job.tell_end(self.run)
        for one in self.editors:
            one.close()


@pytest.fixture
def desk_of(fleet_of: Callable[..., FakeFleet]) -> Iterator[Callable[..., Desk]]:
    made: list[Desk] = []

    def make(ranks: tuple[int, ...] = (1,), **policy: Any) -> Desk:
        made.append(Desk(fleet_of("n0", "n1"), DebugPolicy(frozenset(ranks), **policy)))
        return made[-1]

    yield make
    for one in made:
        one.close()
