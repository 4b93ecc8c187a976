"""Commands and lanes of one session: what is theirs, and when none is left."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from dsrun.launcher.control import frames
from dsrun.launcher.control.command_messages import ExecCommand
from dsrun.launcher.node.machine import processes

from .test_lanes import Lane

if TYPE_CHECKING:
    from ...support.fake_runner import FakeRunner, Steps

pytestmark = pytest.mark.usefixtures("adopting")


def test_the_session_ends_when_neither_is_left(runner: FakeRunner) -> None:
    seen = list[set[int]]()

    def history(r: FakeRunner) -> Steps:
        lane = Lane(r)
        yield from lane.runs()
        r.says(frames.EXEC, ExecCommand(1, ("sleep", "600"), {}, "/", False, 0.0, 1, 1e6))
        yield lambda: len(processes.children()) == 3
        services = r.session._side_services
        assert services is not None
        seen.append(services.pids | {r.guard.pid})
        assert seen == [set(processes.children())]
        assert not services.over
        r.end()

    assert runner.play(history) == 0
    services = runner.session._side_services
    assert services is not None
    assert (services.over, services.pids) == (True, set())
    assert not seen[0] - {runner.guard.pid} & set(processes.children())
