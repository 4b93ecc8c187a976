"""The output of a run watched by rules: histories of silent, wrong and stuck workers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from dsrun.launcher.features.watch.runner_rules import LATE, LOOK
from dsrun.launcher.head.doors import observe
from dsrun.launcher.head.job.ending import ending_of
from dsrun.launcher.head.run.events import Alarm
from dsrun.launcher.head.run.run_view import RunPhase
from dsrun.launcher.specs.policies import EXPECT, Rule, WatchPolicy

from ...support.elastic_run import Job
from ...support.fake_fleet import story

if TYPE_CHECKING:
    from dsrun.launcher.head.run.run import Run

    from ...support.elastic_run import FleetOf
    from ...support.fake_fleet import FakeFleet

EVERY = Rule(EXPECT, "step", every=60.0)
MISSED = f"{EXPECT}: no line has matched 'step' "


class Watched:
    """A run on n0 and n1, two ranks each, that is watched by rules."""

    def __init__(self, fleet_of: FleetOf, *rules: Rule, **policy: Any) -> None:
        self.fleet: FakeFleet = fleet_of("n0", "n1", lease=1e6)
        watch = WatchPolicy(rules=rules, hang_timeout=0.0, **policy)
        self.run: Run = self.fleet.prepare(watch=watch)
        observe(self.run)
        self.alarms: list[Alarm] = []
        self.run.observe(lambda one: self.alarms.append(one) if isinstance(one, Alarm) else None)
        self.run.start()
        self.fleet.step()
        self.fleet.begin_workers(self.run)
        self.fleet.said()

    def prints(self, text: str, rank: int = 0, stream: int = 1) -> None:
        self.fleet.node(f"n{rank // 2}").prints(rank, text, stream)
        self.fleet.step()


def test_a_silent_job_is_told_once_in_time(fleet_of: FleetOf) -> None:
    job = Watched(fleet_of, EVERY)
    job.fleet.go(59.0)
    assert job.fleet.said() == []
    job.fleet.go(1.0)
    text = f"{MISSED}within 1 min 0 s of the start of the workers"
    assert (job.fleet.said(), job.alarms) == ([text], [Alarm("rule", "report", text)])
    job.fleet.go(120.0)
    assert job.fleet.said() == []
    job.prints("step 1\n")
    assert job.fleet.said() == [f"{EXPECT}: a line from rank 0 (n0) matches again, after 3 min 0 s"]


def test_a_job_that_prints_such_lines_in_time_is_left_alone(fleet_of: FleetOf) -> None:
    job = Watched(fleet_of, EVERY)
    for number in range(20):
        job.fleet.go(55.0)
        job.prints("... st", rank=number % 4)
        job.prints(f"ep {number}\n", rank=number % 4)
    assert (job.fleet.said(), job.alarms) == ([], [])


def test_a_chatty_job_that_is_stuck_is_stopped(fleet_of: FleetOf) -> None:
    job = Watched(fleet_of, EVERY._replace(then="stop"))
    job.prints("step 1\n")
    for _ in range(60):
        job.fleet.go(1.0)
        job.prints("still waiting\n", rank=3, stream=2)
    assert job.run.state.phase is RunPhase.STOPPING
    job.fleet.node("n0").stops(0, 1)
    job.fleet.node("n1").stops(2, 3)
    job.fleet.step()
    end = story(job.run)
    why = f"{MISSED}for 1 min 0 s; the last was 'step 1' from rank 0 (n0)"
    assert (end["exit_code"], end["cause"]) == (77, "no progress")
    assert end["lost"] == [{"host": "", "reason": why}]


def test_a_number_that_is_not_finite_stops_at_once(fleet_of: FleetOf) -> None:
    job = Watched(fleet_of, Rule("rule x", r"loss (\S+)", finite="1", then="stop"))
    job.prints("loss 1.0\nloss n", rank=2)
    assert not job.run.state.stopping
    job.prints("an\nloss nan\n", rank=2)
    text = "rule x: group 1 of rank 2 (n1) is nan: 'loss nan'"
    assert (job.run.state.stopping, job.alarms) == (True, [Alarm("rule", "stop", text)])
    job.fleet.node("n0").stops(0, 1)
    job.fleet.node("n1").stops(2, 3)
    job.fleet.step()
    verdict = story(job.run)["verdict"]
    assert (verdict["class"], verdict["sentence"]) == ("script", text)
    assert "earlier checkpoint" in verdict["advice"]
    assert text in ending_of(job.run.view()).text


def test_a_short_time_is_kept_though_the_first_one_is_long(fleet_of: FleetOf) -> None:
    job = Watched(fleet_of, Rule(EXPECT, "step", within=60.0, every=2.0))
    job.fleet.go(1.0)
    job.prints("step 1\n")
    job.fleet.go(1.5)
    assert job.alarms == []
    job.fleet.go(0.5)
    assert len(job.alarms) == 1


def test_several_rules_are_independent(fleet_of: FleetOf) -> None:
    job = Watched(fleet_of, EVERY, Rule("rule eval", "eval", every=20.0, ranks=frozenset({3})))
    job.prints("step 1\neval\n")
    job.fleet.go(20.0)
    assert [one.sentence.partition(":")[0] for one in job.alarms] == ["rule eval"]
    job.fleet.go(40.0)
    assert [one.sentence.partition(":")[0] for one in job.alarms] == ["rule eval", EXPECT]


def test_nothing_is_missed_once_a_worker_has_ended(fleet_of: FleetOf) -> None:
    job = Watched(fleet_of, EVERY)
    job.fleet.node("n1").exits(3, 0)
    job.fleet.go(600.0)
    assert job.alarms == []


def test_time_in_which_dsrun_stood_still_does_not_count(fleet_of: FleetOf) -> None:
    job = Watched(fleet_of, EVERY)
    job.fleet.go(LOOK * 2)
    job.fleet.clock.go(500.0)
    job.fleet.step()
    assert job.alarms == []
    job.fleet.go(60.0 - LOOK * 3 - LATE)
    assert job.alarms == []
    job.fleet.go(LOOK + LATE)
    assert len(job.alarms) == 1


def test_an_expression_that_takes_too_long_is_dropped(fleet_of: FleetOf) -> None:
    job = Watched(fleet_of, Rule("rule slow", "(a+)+$", every=60.0), EVERY)
    job.prints("a" * 60 + "b\n")
    assert job.fleet.said() == [
        "rule slow: no longer watched: the search for '(a+)+$' in output of rank 0 took longer"
        " than 0.2 s"
    ]
    job.fleet.go(60.0)
    assert [one.sentence.partition(":")[0] for one in job.alarms] == [EXPECT]


def test_nothing_is_left_to_do_without_the_only_rule(fleet_of: FleetOf) -> None:
    job = Watched(fleet_of, Rule("rule slow", "(a+)+$", every=60.0))
    job.prints("a" * 60 + "b\n")
    job.fleet.go(100.0)
    assert job.alarms == []


def test_what_a_function_returns_is_no_output(fleet_of: FleetOf) -> None:
    job = Watched(fleet_of, Rule("rule x", "(nan)", finite="1"))
    job.prints("nan\n", stream=3)
    assert job.alarms == []


@pytest.mark.parametrize("rules", [(), (Rule("r", "x", finite="0"),)])
def test_without_times_there_is_nothing_to_wait_for(
    rules: tuple[Rule, ...], fleet_of: FleetOf
) -> None:
    job = Watched(fleet_of, *rules)
    job.fleet.go(100.0)
    assert job.alarms == []


def test_in_an_elastic_job_times_count_from_each_round(fleet_of: FleetOf) -> None:
    fleet, rule = fleet_of("n0"), EVERY._replace(then="restart")
    job = Job(fleet, watch=WatchPolicy(hang_timeout=0.0, rules=(rule,)))
    job.ready()
    fleet.go(600.0)
    assert fleet.said() == [], "the first round has not begun"
    job.join("n0")
    job.up("n0")
    fleet.go(60.0)
    (said,) = fleet.said("warning")
    assert said.startswith(f"restart 1/3: {MISSED}within 1 min 0 s")
    assert fleet.kinds("n0") == ["LEAVE_ROUND"]
    fleet.node("n0").exits(0, -15, told=True)
    job.lose("n0")
    assert job.run.state.stopping, "there is no other node"
