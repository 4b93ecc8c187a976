"""How a run is, as those see it who tell of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dsrun.launcher.common.errors import NodeError
from dsrun.launcher.features.elastic.runner_rounds import SETTLE
from dsrun.launcher.head.run.run_state import RunState
from dsrun.launcher.head.run.run_view import RunPhase

from ...support.elastic_run import started

if TYPE_CHECKING:
    from collections.abc import Callable

    from dsrun.launcher.head.run.run_view import RunView

    from ...support.fake_fleet import FakeFleet

    FleetOf = Callable[..., FakeFleet]


def flags(run: RunView) -> tuple[bool, ...]:
    return run.started, run.runs, run.stopping, run.ending


def test_it_follows_the_phases(fleet_of: FleetOf) -> None:
    fleet = fleet_of("n0")
    run = fleet.run()
    starting = run.view()
    fleet.begin_workers(run)
    running = run.view()
    run.handle(RunState.stop, 15)
    stopping = run.view()
    run.handle(RunState.finish)
    fleet.go(1.0)
    views = starting, running, stopping, run.view()
    assert [one.phase for one in views] == [
        RunPhase.STARTING,
        RunPhase.RUNNING,
        RunPhase.STOPPING,
        RunPhase.OVER,
    ]
    assert [flags(one) for one in views] == [
        (False, False, False, False),
        (True, True, False, False),
        (True, False, True, False),
        (True, False, True, True),
    ]


def test_it_tells_why_a_run_was_refused(fleet_of: FleetOf) -> None:
    run, error = fleet_of("n0").run(), NodeError("no such folder")
    assert run.view().error is None
    run.handle(RunState.fail, error)
    assert run.view().error is error


def test_its_size_is_that_of_the_present_round(fleet_of: FleetOf) -> None:
    job = started(fleet_of("n0", "n1"), restarts=1)
    assert job.run.view().world_size == 4
    job.lose("n1")
    job.join("n0")
    job.fleet.go(SETTLE)
    view = job.run.view()
    assert (view.world_size, len(view.plan.nodes)) == (2, 1)
    assert [node.over for node in view.nodes] == [False, True]
