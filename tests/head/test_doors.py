"""Which features a run has, and that none is imported for a job without it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from dsrun.launcher.head import doors
from dsrun.launcher.head.elastic.runner_rounds import RunnerRounds
from dsrun.launcher.head.run.restart_policy import NoRestarts
from dsrun.launcher.specs.policies import ElasticPolicy, HookPolicy, WatchPolicy

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from ..support.fake_fleet import FakeFleet

    FleetOf = Callable[..., FakeFleet]

UNWATCHED = WatchPolicy(hang_timeout=0.0)


@pytest.mark.parametrize(
    ("watch", "names"),
    [
        (UNWATCHED, []),
        (WatchPolicy(), ["hang"]),
        (WatchPolicy(hang_timeout=0.0, fruitless_rounds=2, slow=True), ["rules", "slow"]),
    ],
)
def test_a_run_has_the_observers_that_its_job_asks_for(
    fleet_of: FleetOf, watch: WatchPolicy, names: list[str]
) -> None:
    spec = fleet_of("n0").prepare(watch=watch).spec
    open_doors = [door for door in doors.OBSERVERS if door.applies(spec)]
    assert [door.name.partition(":")[2] for door in open_doors] == names


@pytest.mark.parametrize("door", [*doors.OBSERVERS, *doors.RESTART_POLICIES])
def test_behind_each_door_there_is_a_function(door: doors.Door) -> None:
    assert callable(door.open())


@pytest.mark.parametrize("verb", doors.VERBS.values(), ids=doors.VERBS)
def test_each_verb_has_functions_for_those_whom_it_asks(verb: doors.JobVerb) -> None:
    assert callable(doors.opened(verb.name))
    assert bool(verb.of_roles) == (verb.rule is not doors.RoleRule.ONE)
    if verb.of_roles:
        assert callable(doors.opened(verb.of_roles))


def test_a_hook_is_waited_for(fleet_of: FleetOf, tmp_path: Path) -> None:
    path = tmp_path / "m.prom"
    job = fleet_of("n0")
    (close,) = doors.observe(job.prepare(watch=UNWATCHED, hooks=HookPolicy(str(path))))
    job.step()
    close()
    assert "dsrun_job_info" in path.read_text()


@pytest.mark.parametrize(
    ("spec", "policy"), [({}, NoRestarts), ({"elastic": ElasticPolicy(1, 2, 3)}, RunnerRounds)]
)
def test_the_restart_policy_is_that_of_the_job(
    fleet_of: FleetOf, spec: dict[str, Any], policy: type
) -> None:
    run = fleet_of("n0", "n1").prepare(restarts=doors.restart_policy, **spec)
    assert type(run.state.restarts) is policy
