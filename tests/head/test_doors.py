"""Which features a run has, and that none is imported for a job without it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from dsrun.launcher.common.entry import load
from dsrun.launcher.control.messages import NodeBindings
from dsrun.launcher.features.elastic.runner_policy import RunnerRounds
from dsrun.launcher.features.jobs.runner_report import troubles
from dsrun.launcher.features.watch.runner_hang_report import Hang
from dsrun.launcher.features.watch.runner_slow_report import Slow
from dsrun.launcher.head import doors
from dsrun.launcher.head.report import document
from dsrun.launcher.head.report.report import of_kind
from dsrun.launcher.head.report.words import words
from dsrun.launcher.head.run.gate import GateStage
from dsrun.launcher.head.run.restart_policy import NoRestarts
from dsrun.launcher.specs.policies import CheckPolicy, ElasticPolicy, HookPolicy, WatchPolicy

from ..support.reports import LOSS, report

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from dsrun.launcher.head.report.report import JobReport

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


@pytest.mark.parametrize("door", [*doors.OBSERVERS, *doors.RESTART_POLICIES, *doors.GATES])
def test_behind_each_door_there_is_a_function(door: doors.Door | doors.GateDoor) -> None:
    assert callable(load(door.name))


@pytest.mark.parametrize("verb", doors.VERBS.values(), ids=doors.VERBS)
def test_each_verb_has_functions_for_those_whom_it_asks(verb: doors.JobVerb) -> None:
    assert callable(load(verb.name))
    assert bool(verb.of_roles) == (verb.rule is not doors.RoleRule.ONE)
    if verb.of_roles:
        assert callable(load(verb.of_roles))


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


@pytest.mark.parametrize(
    ("checks", "stages"),
    [
        (CheckPolicy(quick=False), set()),
        (CheckPolicy(), {GateStage.START, GateStage.MASTER}),
        (CheckPolicy(quick=False, health_command="true"), {GateStage.NODE}),
    ],
)
def test_a_run_has_the_gates_that_its_job_asks_for(
    fleet_of: FleetOf, checks: CheckPolicy, stages: set[GateStage]
) -> None:
    assert doors.gates(fleet_of("n0", "n1").prepare(checks=checks)).stages == stages


def test_one_node_alone_is_at_no_gate_of_interfaces(fleet_of: FleetOf) -> None:
    assert doors.gates(fleet_of("n0").prepare()).stages == {GateStage.START}


class Rain(NamedTuple):
    """What a watch of a test's own has found."""

    drops: int


def fields(told: JobReport) -> dict[str, object]:
    return {"rain": [one.drops for one in of_kind(told.found, Rain)]}


def lines(told: JobReport, headline: str) -> list[str]:
    tense = "it rained" if headline else "it rains"
    return [f"  {tense}: {one.drops} drops" for one in of_kind(told.found, Rain)]


RAIN = doors.SectionDoor(__name__, lambda told: "Rain" in told.kinds, lines=True)


def test_a_row_adds_a_section_to_a_report() -> None:
    dry = report(losses=(LOSS,), sections=(*doors.REPORT_SECTIONS, RAIN))
    wet = dry._replace(found=(Rain(3),))
    assert document.fields(wet) == {**document.fields(dry), "rain": [3]}
    (headline,) = words(dry).splitlines()
    assert words(wet).splitlines() == [headline, "  it rained: 3 drops"]
    assert [line for line in troubles(wet) if line not in troubles(dry)] == ["  it rains: 3 drops"]


def test_a_report_has_its_sections_in_the_order_of_their_rows() -> None:
    found = (Slow(1.0, "it is slow", "disk", (0,), ("w0",)), Hang(2.0, "it hangs", (), (), 60.0))
    told = report(losses=(LOSS,), found=found, restarts=2, bound=(("w0", NodeBindings("cpu", ())),))
    assert [*document.fields(told)][-4:] == ["bindings", "hangs", "slow", "restarts"]
    assert words(told).splitlines()[1:] == ["  it hung before: it hangs", "  slow: it is slow"]
    assert [*document.fields(report())][-1] == "verdict"


@pytest.mark.parametrize("section", doors.REPORT_SECTIONS)
def test_behind_each_section_there_are_functions(section: doors.SectionDoor) -> None:
    assert callable(load(f"{section.module}:fields"))
    assert not section.lines or callable(load(f"{section.module}:lines"))
