"""Rounds of a run over nodes that come and go: frames in; rounds, words and report out."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING, Any, cast

import pytest

from dsrun.launcher.backends.events import EngineEnded, SessionEnded
from dsrun.launcher.common.errors import LOST, SWEPT, NodeError
from dsrun.launcher.common.errors import TOO_FEW as TOO_FEW_CODE
from dsrun.launcher.control import frames
from dsrun.launcher.features.elastic.runner_admission import PAUSES
from dsrun.launcher.features.elastic.runner_policy import ENDED_EARLY, TOO_FEW
from dsrun.launcher.features.elastic.runner_rounds import SETTLE
from dsrun.launcher.head.run import run_signals
from dsrun.launcher.head.run.restart_policy import BEYOND
from dsrun.launcher.head.run.run_state import RunState
from dsrun.launcher.head.run.run_view import RunPhase

from ...support.elastic_run import LINE, Job, end_well, left, lost, started
from ...support.fake_fleet import losses, story

if TYPE_CHECKING:
    from ...support.elastic_run import FleetOf


# -- the first round ------------------------------------------------------------------------------


def test_the_first_round_is_formed_once_all_agents_are_ready(fleet_of: FleetOf) -> None:
    job = Job(fleet_of("n0", "n1"), restarts=7)
    assert job.rounds.least == 1
    job.ready()
    job.join("n1")
    assert job.fleet.news("n1") == []
    job.join("n0")
    first, second = job.round("n0"), job.round("n1")
    both = ("world_size", "nodes", "generation", "restarts", "max_restarts", "master_port")
    assert [first[name] for name in both] == [second[name] for name in both]
    assert [first[name] for name in both] == [4, 2, 1, 0, 7, 4000]
    assert [(one["first_rank"], one["node_rank"]) for one in (first, second)] == [(0, 0), (2, 1)]
    assert first["master_addr"] == second["master_addr"] == "n0", "as the start has verified"
    assert job.fleet.said("debug") == ["next round: 4 workers on n0, n1"]
    end_well(job, "n0", "n1")
    end = story(job.run)
    assert (end["exit_code"], end["world_size"]) == (0, 4)


def test_a_ready_agent_before_the_start_is_none(fleet_of: FleetOf) -> None:
    fleet = fleet_of("n0", "n1")
    job = Job(fleet)
    fleet.node("n1").joins(4000)
    fleet.node("n0").hello()
    fleet.step()
    assert fleet.fleet.nodes[1].lost == (
        "it sent an invalid frame of kind 41: the job has not started"
    )
    assert job.run.state.nodes[1].reason == fleet.fleet.nodes[1].lost


def test_a_node_that_cannot_be_reached_at_the_start_is_looked_for(fleet_of: FleetOf) -> None:
    fleet = fleet_of("n0", "n1", connect=False)
    fleet.backend.absent = {"n1"}
    job = Job(fleet)
    fleet.connect()
    fleet.emit(SessionEnded(1, "no route"))
    fleet.node("n0").hello()
    fleet.step()
    assert fleet.said("warning") == ["n1: no route; starting without it"]
    job.join("n0")
    assert fleet.kinds("n0") == ["JOB", "START", "ROUND"]
    fleet.go(PAUSES.first - 0.5)
    assert fleet.backend.started == [[0, 1]]
    fleet.go(1.0)
    assert fleet.backend.started == [[0, 1], [1]]


def test_a_node_that_answers_once_the_others_have_started_is_reached_anew(
    fleet_of: FleetOf,
) -> None:
    """It was told to stop, so it cannot wait for a round; it leaves, and the job goes on."""
    fleet = fleet_of("n0", "n1")
    job = Job(fleet)
    fleet.node("n0").hello()
    fleet.go(job.run.spec.supervision.start_timeout + 1)
    assert fleet.kinds("n1") == ["JOB", "STOP"]
    fleet.node("n1").hello()
    fleet.node("n1").done()
    fleet.step()
    assert not any("n1 is back" in line for line in fleet.said("warning"))
    job.join("n0")
    assert fleet.kinds("n0") == ["JOB", "START", "ROUND"]


# -- ready at another time ------------------------------------------------------------------------

STILL = "it sent an invalid frame of kind 41: ready for a round, but still in the last one"


def test_a_node_whose_workers_run_is_not_ready(fleet_of: FleetOf) -> None:
    """Something else may write to its line; the others would be in a round beside its workers."""
    job = started(fleet_of("n0", "n1"))
    job.fleet.node("n1").joins(4001)
    job.fleet.step()
    assert job.run.state.nodes[1].lost == STILL
    assert job.fleet.kinds("n0") == ["LEAVE_ROUND"]


def test_a_node_that_was_not_told_to_leave_its_round_is_not_ready(fleet_of: FleetOf) -> None:
    job = started(fleet_of("n0", "n1"))
    job.finish("n1", generation=1)
    job.fleet.node("n1").joins(4001)
    job.fleet.step()
    assert job.run.state.nodes[1].lost == STILL


def test_torchs_agent_is_ready_before_the_workers_that_it_kills_have_ended(
    fleet_of: FleetOf,
) -> None:
    job = started(fleet_of("n0", "n1"), agent="torch")
    job.fleet.node("n1").exits(2, 7)
    job.fleet.node("n1").joins(4001)
    job.fleet.node("n0").joins(4000)
    job.fleet.step()
    assert [job.fleet.kinds(name)[-1] for name in ("n0", "n1")] == ["ROUND", "ROUND"]


# -- a failure ------------------------------------------------------------------------------------


def test_a_failure_is_followed_by_a_round_of_the_same(fleet_of: FleetOf) -> None:
    job = started(fleet_of("n0", "n1"))
    job.fleet.node("n1").exits(2, 7)
    job.fleet.step()
    assert job.fleet.said("warning") == ["restart 1/3: rank 2 on n1 exited 7"]
    assert job.run.state.phase is RunPhase.RUNNING
    job.join("n1")
    assert job.fleet.news("n0") == [["LEAVE_ROUND", "b''"]]
    job.join("n0")
    again = job.round("n1")
    assert (again["generation"], again["restarts"], again["first_rank"]) == (2, 1, 2)
    assert job.fleet.said() == ["next round: 4 workers on n0, n1"]
    job.round("n0")
    job.up("n0", "n1")
    end_well(job, "n0", "n1")
    assert (story(job.run)["exit_code"], story(job.run)["failures"]) == (0, [])


@pytest.mark.parametrize(("code", "how"), [(1, "exited 1"), (-9, "was killed by signal 9")])
def test_a_worker_that_failed_is_told_with_its_code_or_its_signal(
    code: int, how: str, fleet_of: FleetOf
) -> None:
    job = started(fleet_of("n0", "n1"))
    job.fleet.node("n0").exits(1, code)
    job.fleet.step()
    assert job.fleet.said("warning") == [f"restart 1/3: rank 1 on n0 {how}"]


def test_a_failure_beyond_the_last_restart_ends_the_job(fleet_of: FleetOf) -> None:
    job = started(fleet_of("n0", "n1"), restarts=0, least=2)
    job.fleet.node("n1").exits(2, 7)
    assert "STOP" in job.fleet.kinds("n0")
    job.fleet.node("n0").stops(0, 1)
    job.fleet.node("n1").stops(3)
    job.fleet.step()
    assert story(job.run)["exit_code"] == 7


@pytest.mark.parametrize(("code", "final"), [(-15, True), (3, False)])
def test_codes_that_are_not_worth_a_restart_are_those_of_a_shell(
    code: int, final: bool, fleet_of: FleetOf
) -> None:
    job = started(fleet_of("n0"), final=frozenset({143}))
    job.fleet.node("n0").exits(1, code)
    job.fleet.step()
    assert job.run.state.stopping is final


def test_a_failure_while_it_is_stopped_is_noted_and_no_more(fleet_of: FleetOf) -> None:
    job = started(fleet_of("n0"))
    job.run.handle(RunState.stop, 15)
    job.fleet.node("n0").exits(1, 7)
    job.fleet.node("n0").stops(0)
    job.fleet.step()
    assert (job.fleet.said("warning"), story(job.run)["exit_code"]) == ([], 7)


# -- a failure that may be a loss -----------------------------------------------------------------


def test_what_fails_of_the_loss_of_a_node_ends_nothing(fleet_of: FleetOf) -> None:
    job = started(fleet_of("n0", "n1"), restarts=0)
    job.fleet.node("n0").exits(0, 1)
    job.fleet.step()
    assert not job.run.state.stopping
    job.fleet.go(SETTLE / 2)
    job.lose("n1")
    job.join("n0")
    assert job.fleet.kinds("n0") == ["LEAVE_ROUND"], "the round is held until all is known"
    job.fleet.go(SETTLE)
    alone = job.round("n0")
    assert (alone["generation"], alone["world_size"], alone["restarts"]) == (2, 2, 0)
    assert job.run.state.phase is RunPhase.RUNNING


def test_where_no_node_is_lost_it_was_a_failure(fleet_of: FleetOf) -> None:
    job = started(fleet_of("n0", "n1"), restarts=0)
    job.fleet.node("n0").exits(0, 5)
    job.fleet.go(SETTLE - 0.5)
    assert not job.run.state.stopping
    job.fleet.go(0.5)
    assert job.run.state.stopping
    job.fleet.node("n0").stops(1)
    job.fleet.node("n1").stops(2, 3)
    job.fleet.step()
    assert story(job.run)["exit_code"] == 5


def test_the_last_failure_begins_no_other_round(fleet_of: FleetOf) -> None:
    """All nodes are ready for one when it is decided, and it took time to note the failure."""
    job = started(fleet_of("n0", "n1", "n2"), restarts=0)
    job.fleet.clock.step = 1e-3
    job.fleet.node("n1").exits(2, 5)
    job.fleet.node("n1").exits(3, -15, told=True)
    job.fleet.step()
    job.fleet.clock.step = 0.0
    job.join("n1", "n0", "n2")
    job.fleet.go(SETTLE + 0.5)
    assert [job.fleet.kinds(name) for name in ("n0", "n1")] == [["LEAVE_ROUND", "STOP"], ["STOP"]]
    assert job.fleet.said() == []
    for name in ("n0", "n1", "n2"):
        job.fleet.node(name).done()
    job.fleet.step()
    end = story(job.run)
    assert (end["exit_code"], [one["rank"] for one in end["failures"]]) == (5, [2])


def test_a_stop_while_that_is_waited_for_ends_with_the_failure(fleet_of: FleetOf) -> None:
    job = started(fleet_of("n0", "n1"), restarts=0)
    job.fleet.node("n0").exits(0, 5)
    job.fleet.step()
    job.run.handle(RunState.stop, 15)
    job.fleet.go(SETTLE)
    job.fleet.node("n0").stops(1)
    job.fleet.node("n1").stops(2, 3)
    job.fleet.step()
    assert story(job.run)["exit_code"] == 5


def test_nothing_is_sent_to_the_nodes_of_a_job_that_is_over(fleet_of: FleetOf) -> None:
    """They may be those of a hold, and run another job by then."""
    job = started(fleet_of("n0", "n1"), restarts=0)
    job.fleet.node("n0").exits(0, 5)
    job.fleet.step()
    job.run.handle(RunState.stop, 15)
    job.fleet.node("n0").stops(1)
    job.fleet.node("n1").stops(2, 3)
    job.fleet.step()
    end = story(job.run)
    assert (end["exit_code"], [one["rank"] for one in end["failures"]]) == (5, [0])
    job.fleet.news("n1")
    job.fleet.go(2 * SETTLE)
    assert job.fleet.kinds("n1") == []


# -- a loss ---------------------------------------------------------------------------------------


def test_a_loss_is_followed_by_a_round_of_the_others(fleet_of: FleetOf) -> None:
    job = started(fleet_of("n0", "n1", "n2"))
    job.lose("n0")
    lost, *unseen = job.fleet.said("warning")
    assert lost == f"lost n0: {LINE}; going on without it"
    assert unseen == []
    for name in ("n1", "n2"):
        assert job.fleet.kinds(name) == ["LEAVE_ROUND"]
    job.join("n1", "n2")
    first, second = job.round("n1"), job.round("n2")
    assert (first["generation"], first["restarts"], first["world_size"]) == (2, 0, 4)
    assert [(one["first_rank"], one["node_rank"]) for one in (first, second)] == [(0, 0), (2, 1)]
    assert (first["master_addr"], first["master_port"]) == ("n1", 4001)
    job.up("n1", "n2")
    job.fleet.node("n1").prints(0, "x")
    job.fleet.node("n2").prints(3, "x")
    job.fleet.step()
    assert job.fleet.console.labels == {0: ("n1:0| ", {1, 2}), 3: ("n2:3| ", {1, 2})}
    end_well(job, "n1", "n2")
    end = story(job.run)
    assert (end["exit_code"], end["world_size"], end["lost"]) == (0, 4, [])


def test_the_others_start_where_the_first_node_is_lost_before_it_has_started(
    fleet_of: FleetOf,
) -> None:
    """They wait for it with their START: it may still listen on the master port."""
    fleet = fleet_of("n0", "n1", "n2")
    job = Job(fleet)
    fleet.ready(job.run)
    assert [fleet.kinds(name)[-1] for name in ("n0", "n1")] == ["START", "PROBE"]
    fleet.node("n0").leaves()
    fleet.step()
    assert [fleet.kinds(name) for name in ("n1", "n2")] == [["START"], ["JOB", "PROBE", "START"]]
    job.join("n1", "n2")
    assert job.round("n1")["nodes"] == 2


def test_what_is_left_of_a_lost_node_does_not_end_a_job_that_waits_for_another(
    fleet_of: FleetOf,
) -> None:
    """Its guard was killed, so it stops its workers, says so and leaves."""
    fleet = fleet_of("n0")
    job = Job(fleet, wait=60.0)
    job.ready()
    job.join("n0")
    fleet.up("n0", 0, 1)
    fleet.node("n0").notes("its guard was killed", 9)
    for rank in (0, 1):
        fleet.node("n0").exits(rank, -15, told=True)
    fleet.node("n0").done()
    fleet.step()
    assert job.run.state.phase is RunPhase.RUNNING
    assert "lost n0: its guard was killed; going on without it" in fleet.said()
    fleet.go(61.0)
    assert story(job.run)["exit_code"] == TOO_FEW_CODE


def test_a_silent_node_has_time_to_end_its_workers(fleet_of: FleetOf) -> None:
    job = started(fleet_of("n0", "n1", lease=16.0))
    job.run.state.lease = 16.0
    job.fleet.go(16.0, silent=["n1"])
    assert job.fleet.said("warning")[0] == "lost n1: no heartbeat for 16 s; going on without it"
    job.join("n0")
    job.fleet.go(2.0 - 0.5)
    assert "ROUND" not in job.fleet.kinds("n0")
    job.fleet.go(0.5)
    assert job.fleet.kinds("n0") == ["ROUND"]


HERE = os.uname().nodename
NETWORK = f"nor from any other node: the network of {HERE}, where dsrun runs, has failed"


@pytest.mark.parametrize("wait", [0.0, 60.0])
def test_nodes_that_are_silent_together_are_told_once_and_all_reported(
    wait: float, fleet_of: FleetOf
) -> None:
    names = ("n0", "n1", "n2")
    job = started(fleet_of(*names, lease=16.0), wait=wait)
    job.fleet.backend.absent |= {*names}
    job.fleet.go(20.0, silent=[*names])
    told = [text for text in job.fleet.said("warning") if text.startswith("lost ")]
    ends = "the nodes end their workers themselves"
    assert told == [f"lost n0, n1, n2: no heartbeat for 16 s, {NETWORK}; {ends}"]
    job.fleet.go(wait + 1.0)
    report = story(job.run)
    assert report["exit_code"] == (TOO_FEW_CODE if wait else LOST)
    assert {one["host"] for one in report["lost"]} - {""} == {*names}


def test_a_node_that_sends_no_frames_has_time_to_end_its_workers(fleet_of: FleetOf) -> None:
    """It lives, and learns only from the end of its connection that it is lost."""
    job = started(fleet_of("n0", "n1", lease=16.0))
    job.run.state.lease = 16.0
    job.fleet.node("n1").says(frames.pack(frames.END))
    job.fleet.step()
    job.fleet.node("n0").exits(0, 1)
    job.join("n0")
    job.fleet.go(10.0)
    assert "ROUND" not in job.fleet.kinds("n0")
    job.fleet.node("n1").ends(f"the node launcher lost contact with the runner; {SWEPT}", 0.0)
    job.fleet.step()
    assert job.fleet.kinds("n0") == ["ROUND"]


@pytest.mark.parametrize("ends", [True, False])
def test_a_node_that_leaves_has_time_to_end_its_workers(ends: bool, fleet_of: FleetOf) -> None:
    """It misses the runner, which still hears it."""
    job = started(fleet_of("n0", "n1", lease=16.0))
    job.run.state.lease = 16.0
    job.fleet.node("n1").notes("no heartbeat from the runner for 15 s", signal.SIGKILL)
    job.fleet.step()
    job.join("n0")
    job.fleet.go(10.0)
    assert "ROUND" not in job.fleet.kinds("n0")
    if ends:
        job.fleet.node("n1").stops(2, 3)
    else:
        job.fleet.go(job.run.state.grace + BEYOND * 16.0 - 10.0)
    assert job.fleet.kinds("n0") == ["ROUND"]


@pytest.mark.parametrize("why", ["exit code 255", ""])
def test_a_node_whose_connection_ends_may_live_until_it_misses_the_runner(
    why: str, fleet_of: FleetOf
) -> None:
    job = started(fleet_of("n0", "n1", lease=16.0))
    job.run.state.lease = 16.0
    job.fleet.node("n1").leaves()
    job.fleet.node("n1").ends(why, 0.0)
    job.fleet.step()
    job.join("n0")
    job.fleet.go(16.0 * BEYOND - 0.5)
    assert "ROUND" not in job.fleet.kinds("n0")
    job.fleet.go(0.5)
    assert job.fleet.kinds("n0") == ["ROUND"]


def test_a_node_launcher_that_has_closed_its_own_line_does_not_live_long(fleet_of: FleetOf) -> None:
    """No ssh has carried that line, which may break while both ends live."""
    fleet = fleet_of("n0", "n1", lease=16.0, connect=False)
    fleet.connect(cast("Any", object()))
    job = started(fleet)
    job.run.state.lease = 16.0
    job.fleet.node("n1").leaves()
    job.fleet.step()
    job.join("n0")
    job.fleet.go(1.5)
    assert "ROUND" not in job.fleet.kinds("n0")
    job.fleet.go(0.5)
    assert job.fleet.kinds("n0") == ["ROUND"]


def test_the_word_of_a_guard_may_come_before_the_end_of_the_connection(fleet_of: FleetOf) -> None:
    job = started(fleet_of("n0", "n1"))
    job.fleet.emit(SessionEnded(1, f"the node launcher was killed by SIGKILL; {SWEPT}"))
    job.fleet.node("n1").leaves()
    job.fleet.step()
    job.join("n0")
    assert job.fleet.kinds("n0") == ["LEAVE_ROUND", "ROUND"]


def test_an_agent_that_has_failed_may_have_workers_until_its_node_is_done(
    fleet_of: FleetOf,
) -> None:
    job = started(fleet_of("n0", "n1"))
    left(job, "n1", "cannot reserve a port")
    job.join("n0")
    assert job.fleet.kinds("n0") == ["LEAVE_ROUND"]
    job.fleet.node("n1").stops(2, 3)
    assert job.fleet.kinds("n0") == ["ROUND"]


def test_a_node_that_is_given_up_while_it_is_cut_off_has_that_time_as_well(
    fleet_of: FleetOf,
) -> None:
    """It does not hear that it is given up, and its workers run until it misses the runner."""
    job = started(fleet_of("n0", "n1", lease=64.0), patience=12.0)
    job.fleet.go(10.0, silent=["n1"])
    job.fleet.node("n0").exits(0, 1)
    job.join("n0")
    job.fleet.go(12.5, silent=["n1"])
    assert not job.fleet.node("n1").open
    job.fleet.go(64.0 * BEYOND - 23.0)
    assert "ROUND" not in job.fleet.kinds("n0")
    job.fleet.go(1.0)
    assert job.fleet.kinds("n0") == ["ROUND"]


def test_a_silent_spare_holds_nobody_up(fleet_of: FleetOf) -> None:
    job = Job(fleet_of("n0", "n1", lease=16.0), most=1)
    job.ready()
    job.join("n0", "n1")
    job.up("n0")
    job.fleet.node("n0").exits(1, 7)
    job.fleet.step()
    job.fleet.go(16.0, silent=["n1"])
    job.fleet.news("n0")
    job.join("n0")
    assert job.fleet.kinds("n0") == ["ROUND"]


def test_too_few_nodes_end_the_job(fleet_of: FleetOf) -> None:
    job = started(fleet_of("n0", "n1"), least=2)
    job.fleet.node("n1").leaves()
    assert job.fleet.kinds("n0") == ["STOP"]
    job.fleet.node("n0").stops(0, 1)
    job.fleet.go(1)
    assert (losses(job.run), story(job.run)["exit_code"]) == ({"n1": LINE}, 75)


def test_too_few_nodes_for_too_long_end_the_job(fleet_of: FleetOf) -> None:
    job = started(fleet_of("n0", "n1"), least=2, wait=20.0)
    job.fleet.backend.absent = {"n1"}
    job.fleet.node("n0").exits(0, 1)
    job.fleet.node("n1").leaves()
    job.fleet.go(19.5)
    assert not job.run.state.stopping
    job.fleet.go(0.5)
    assert job.run.state.stopping
    job.fleet.node("n0").stops(1)
    job.fleet.step()
    end = story(job.run)
    assert (end["exit_code"], end["failures"]) == (TOO_FEW_CODE, [])
    assert losses(job.run) == {"": TOO_FEW}


def test_a_job_that_is_stopped_is_not_given_up_as_well(fleet_of: FleetOf) -> None:
    job = started(fleet_of("n0", "n1"), least=2, wait=20.0)
    job.fleet.backend.absent = {"n1"}
    job.fleet.node("n1").leaves()
    job.fleet.go(5)
    job.run.handle(run_signals.on_end_signal, 15)
    job.fleet.go(20)
    job.fleet.node("n0").stops(0, 1)
    job.fleet.step()
    assert (story(job.run)["exit_code"], losses(job.run)) == (143, {})


def test_a_runner_that_stood_still_hears_all_nodes_before_it_loses_any(fleet_of: FleetOf) -> None:
    """The first frame that it reads says nothing of the other nodes."""
    job = started(fleet_of("n0", "n1", "n2"), patience=3.0)
    job.fleet.node("n0").exits(0, 1)
    job.fleet.step()
    for name in ("n0", "n1", "n2"):
        job.fleet.node(name).joins(4000)
    job.fleet.clock.go(4.0)
    job.fleet.step()
    assert [job.fleet.node(name).open for name in ("n0", "n1", "n2")] == [True] * 3
    assert job.fleet.kinds("n1") == ["LEAVE_ROUND", "ROUND"]


def test_who_does_not_leave_its_round_is_lost(fleet_of: FleetOf) -> None:
    job = started(fleet_of("n0", "n1"), patience=30.0)
    job.fleet.node("n0").exits(0, 1)
    job.fleet.step()
    job.join("n0")
    job.fleet.go(29)
    assert job.fleet.node("n1").open
    job.fleet.go(1.5)
    assert not job.fleet.node("n1").open
    why = "it did not stop its workers within 30 s"
    assert job.fleet.fleet.nodes[1].lost == why
    assert any(f"lost n1: {why}; going on without it" in one for one in job.fleet.said("warning"))
    assert job.fleet.kinds("n0") == []
    job.fleet.node("n1").ends(f"the node launcher lost contact with the runner; {SWEPT}", 0.0)
    job.fleet.step()
    assert job.fleet.kinds("n0") == ["ROUND"]


# -- agents that end ------------------------------------------------------------------------------


def test_an_agent_that_ends_costs_its_node(fleet_of: FleetOf) -> None:
    job = started(fleet_of("n0", "n1"))
    for rank in (2, 3):
        job.fleet.node("n1").exits(rank, -15, told=True)
    left(job, "n1", "its store does not answer")
    (said,) = job.fleet.said("warning")
    assert said == "lost n1: its store does not answer; going on without it"
    job.fleet.go(PAUSES.first + 1)
    assert job.fleet.backend.started[1:] == [[1]]


def test_the_end_of_a_lost_node_is_not_the_end_of_its_work(fleet_of: FleetOf) -> None:
    job = started(fleet_of("n0", "n1", "n2"))
    for rank in (4, 5):
        job.fleet.node("n2").exits(rank, -15, told=True)
    left(job, "n2", "its store does not answer")
    job.fleet.node("n2").done()
    job.join("n0", "n1")
    job.fleet.said()
    job.fleet.node("n1").exits(2, 7)
    job.fleet.step()
    assert job.fleet.said("warning") == ["restart 1/3: rank 2 on n1 exited 7"]


def test_a_node_that_can_do_nothing_is_not_looked_for(fleet_of: FleetOf) -> None:
    job = started(fleet_of("n0", "n1"))
    left(job, "n1", "no torch here", unusable=True)
    job.join("n0")
    job.fleet.go(60)
    assert job.fleet.backend.started == [[0, 1]]
    assert job.run.state.phase is RunPhase.RUNNING


def test_before_the_first_round_that_is_why_the_job_cannot_start(fleet_of: FleetOf) -> None:
    job = Job(fleet_of("n0", "n1"), least=2)
    job.ready()
    left(job, "n1", "no torch here", unusable=True)
    job.fleet.node("n0").done()
    job.fleet.node("n1").done()
    job.fleet.step()
    assert (type(job.run.state.error), str(job.run.state.error)) == (NodeError, "n1: no torch here")


def test_after_it_that_is_a_loss(fleet_of: FleetOf) -> None:
    job = started(fleet_of("n0", "n1"), least=2)
    left(job, "n1", "no torch here", unusable=True)
    job.fleet.node("n0").stops(0, 1)
    job.fleet.step()
    assert not job.run.state.ending, "its workers may still run"
    job.fleet.node("n1").done()
    job.fleet.step()
    assert losses(job.run) == {"n1": "no torch here"}


# -- the end --------------------------------------------------------------------------------------


def test_nodes_that_are_not_in_the_last_round_are_stopped(fleet_of: FleetOf) -> None:
    job = Job(fleet_of("n0", "n1"), most=1)
    job.ready()
    job.join("n0", "n1")
    job.up("n0")
    assert job.fleet.news("n1") == []
    end_well(job, "n0")
    assert job.fleet.news("n1") == [["STOP", {"number": 15, "grace": 0}]]
    job.fleet.node("n1").done()
    job.fleet.step()
    assert (story(job.run)["exit_code"], losses(job.run)) == (0, {})


def test_as_long_as_one_of_the_round_works_spares_are_kept(fleet_of: FleetOf) -> None:
    job = Job(fleet_of("n0", "n1", "n2"), most=2)
    job.ready()
    job.join("n0", "n1", "n2")
    job.up("n0", "n1")
    end_well(job, "n0")
    assert job.fleet.news("n2") == []
    end_well(job, "n1")
    assert job.fleet.kinds("n2") == ["STOP"]


def test_who_is_done_while_others_restart_ends_a_job_that_needs_it(fleet_of: FleetOf) -> None:
    job = started(fleet_of("n0", "n1"), least=2)
    job.fleet.node("n1").exits(2, 7)
    job.fleet.step()
    job.join("n1")
    end_well(job, "n0")
    assert job.run.state.stopping
    job.fleet.node("n1").stops(3)
    job.fleet.step()
    assert losses(job.run) == {"n0": ENDED_EARLY}


def test_a_stop_while_a_round_is_formed_forms_none(fleet_of: FleetOf) -> None:
    job = started(fleet_of("n0", "n1"))
    job.fleet.node("n1").exits(2, 7)
    job.fleet.step()
    job.join("n1")
    job.run.handle(run_signals.on_end_signal, 15)
    job.join("n0")
    assert job.fleet.kinds("n0") == ["LEAVE_ROUND", "STOP"]
    job.fleet.node("n0").stops(0, 1)
    job.fleet.node("n1").stops(3)
    job.fleet.go(60)
    assert (story(job.run)["exit_code"], job.fleet.backend.started) == (143, [[0, 1]])


def test_the_end_of_an_engine_whose_nodes_work_ends_the_job(fleet_of: FleetOf) -> None:
    job = started(fleet_of("n0", "n1"))
    assert not job.rounds.outlives_engine()
    job.fleet.emit(EngineEnded("mpirun exited with code 3", 3, False))
    assert job.run.state.stopping


def test_nodes_that_were_reached_again_need_no_engine(fleet_of: FleetOf) -> None:
    job = lost(fleet_of)
    job.fleet.node("n1").hello()
    job.fleet.step()
    job.join("n1", "n0")
    assert not job.rounds.outlives_engine()
    job.up("n1", "n0")
    job.fleet.node("n0").leaves()
    job.fleet.step()
    assert job.rounds.outlives_engine()
    job.fleet.emit(EngineEnded("mpirun has ended", 1, False))
    assert job.run.state.phase is RunPhase.RUNNING


def test_a_job_that_was_stopped_by_an_engine_that_was_killed_has_not_ended_well(
    fleet_of: FleetOf,
) -> None:
    """It has signalled its last node, and nothing needs it any more when its end is heard of."""
    job = lost(fleet_of)
    job.fleet.node("n1").hello()
    job.fleet.step()
    job.join("n1", "n0")
    job.up("n1", "n0")
    job.fleet.node("n0").notes("the node launcher received SIGTERM", 15)
    end_well(job, "n0")
    assert job.rounds.outlives_engine()
    job.fleet.emit(EngineEnded("mpirun ended (SIGKILL)", 75, True))
    end_well(job, "n1")
    assert (story(job.run)["exit_code"], losses(job.run)[""]) == (75, "mpirun ended (SIGKILL)")
