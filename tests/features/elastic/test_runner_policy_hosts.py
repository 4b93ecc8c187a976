"""What an elastic job hears of while it runs, from a real hostfile."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dsrun.launcher.features.elastic import runner_host_watch as host_watch
from dsrun.launcher.features.elastic.runner_policy import RunnerRounds
from dsrun.launcher.head.run.run_state import RunState
from dsrun.launcher.specs.host_updates import HostUpdates
from dsrun.launcher.specs.policies import ElasticPolicy

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from dsrun.launcher.head.run.run import Run

    from ...support.fake_fleet import FakeFleet

    FleetOf = Callable[..., FakeFleet]

LIMITS = ElasticPolicy(1, 4, 3)


def start(fleet: FakeFleet, updates: HostUpdates | None = None) -> Run:
    """An elastic run that has started."""
    run = fleet.prepare(
        restarts=lambda run: RunnerRounds(run, LIMITS), elastic=LIMITS, updates=updates
    )
    if updates is not None:
        host_watch.watch(run)
    run.start()
    fleet.step()
    assert isinstance(run.state.restarts, RunnerRounds)
    fleet.ready(run)
    return run


def test_a_hostfile_that_changes_is_read_again(fleet_of: FleetOf, tmp_path: Path) -> None:
    fleet, path = fleet_of("n0"), tmp_path / "hosts"
    path.write_text("n0 slots=2\n")
    run = start(fleet, HostUpdates(hostfile=str(path)))
    fleet.go(1.5)
    assert fleet.backend.started == [[0]]
    path.write_text("n0 slots=2\nn1 slots=1\n")
    fleet.go(1.5)
    assert fleet.backend.started == [[0], [1]]
    path.write_text("n0 slots=\n")
    fleet.go(1.5)
    (wrong,) = fleet.said("warning")
    assert wrong.startswith(f"{path}:1")
    assert wrong.endswith("; the hosts stay as they are")
    run.handle(RunState.stop, 15)
    path.write_text("n0 slots=2\nn0 slots=\n")
    fleet.go(3)
    assert fleet.said("warning") == [], "nobody looks any more"


def test_a_program_names_the_hosts_where_one_is_given(fleet_of: FleetOf) -> None:
    fleet = fleet_of("n0")
    start(fleet, HostUpdates(script="/no/such/program", hostfile="/no/such/file"))
    fleet.go(1.5)
    (wrong,) = fleet.said("warning")
    assert wrong.startswith("/no/such/program: ")


def test_without_any_source_of_hosts_nobody_looks(fleet_of: FleetOf) -> None:
    fleet = fleet_of("n0")
    start(fleet)
    fleet.go(3)
    assert fleet.said("warning") == []
