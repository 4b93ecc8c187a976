"""What a watch does to a run, and what a hook is told of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dsrun.launcher.common.errors import NO_PROGRESS
from dsrun.launcher.features.watch import runner as attach
from dsrun.launcher.features.watch.runner import alert_action
from dsrun.launcher.head.run.events import Alarm
from dsrun.launcher.head.run.run_state import RunState
from dsrun.launcher.head.run.run_view import RunPhase

from ...support.elastic_run import started
from ...support.fake_fleet import story

if TYPE_CHECKING:
    from dsrun.launcher.head.run.events import RunEvent

    from ...support.elastic_run import FleetOf

WHY = "no line matched 'step'"


def test_a_report_is_a_line_and_observers_are_told(fleet_of: FleetOf) -> None:
    job = fleet_of("n0")
    run = job.start()
    seen: list[RunEvent] = []
    run.observe(seen.append)
    job.said()
    alert_action(run).perform("rule", "report", WHY)
    assert (job.said("warning"), seen) == ([WHY], [Alarm("rule", "report", WHY)])
    assert run.state.phase is RunPhase.RUNNING


def test_a_stopped_job_ends_with_the_sentence_as_its_cause(fleet_of: FleetOf) -> None:
    job = fleet_of("n0", "n1")
    run = job.start()
    job.said()
    alert_action(run).perform("rule", "stop", WHY)
    assert job.said("warning") == [f"{WHY}: stopping the job"]
    for name, ranks in (("n0", (0, 1)), ("n1", (2, 3))):
        assert "STOP" in job.kinds(name)
        job.node(name).stops(*ranks)
    job.step()
    end = story(run)
    assert (end["exit_code"], end["cause"], end["stopped"]) == (NO_PROGRESS, "no progress", 4)
    assert end["lost"] == [{"host": "", "reason": WHY}]


def test_a_restart_spends_one_and_forms_a_round_of_the_same(fleet_of: FleetOf) -> None:
    job = started(fleet_of("n0", "n1"), restarts=1)
    alert_action(job.run).perform("hang", "restart", WHY)
    assert job.fleet.said("warning") == [f"restart 1/1: {WHY}"]
    assert job.fleet.kinds("n0") == job.fleet.kinds("n1") == ["LEAVE_ROUND"]
    job.join("n0", "n1")
    assert job.round("n0")["restarts"] == 1
    job.fleet.said()
    alert_action(job.run).perform("hang", "restart", WHY)
    assert job.run.state.stopping
    why = f"{WHY}; it cannot be restarted again"
    assert job.fleet.said("warning") == [f"{why}: stopping the job"]


def test_a_job_without_rounds_is_stopped_instead(fleet_of: FleetOf) -> None:
    run = fleet_of("n0").start()
    alert_action(run).perform("hang", "restart", WHY)
    assert run.state.stopping


def test_nothing_follows_once_a_job_is_being_stopped(fleet_of: FleetOf) -> None:
    job = fleet_of("n0")
    run = job.start()
    run.handle(RunState.stop, 15)
    job.said()
    alert_action(run).perform("hang", "stop", WHY)
    assert job.said() == []


def test_a_run_goes_on_without_a_feature_that_fails(
    fleet_of: FleetOf, unexpected_faults: list[Exception]
) -> None:
    job = fleet_of("n0")
    run = job.prepare()
    seen: list[object] = []

    def see(event: object) -> None:
        seen.append(event)
        raise KeyError("x")

    attach.observe(run, "--rules", see)
    run.observe(seen.append)
    run.start()
    job.step()
    job.ready(run)
    job.up("n0", 0, 1)
    assert [type(one).__name__ for one in seen] == ["Started", "Started", "RanksStarted"]
    assert job.said("warning") == [
        "this is a bug in dsrun: going on without --rules: KeyError: 'x'"
    ]
    unexpected_faults.clear()
