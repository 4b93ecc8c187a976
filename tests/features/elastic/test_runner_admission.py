"""Nodes that come to a job that runs: who is reached, and who is accepted."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from dsrun.launcher.backends.events import SessionEnded
from dsrun.launcher.common.errors import DsrunError
from dsrun.launcher.features.elastic.runner_admission import PAUSES, SPARES
from dsrun.launcher.head.run.run_state import RunState
from dsrun.launcher.head.run.run_view import RunPhase
from dsrun.launcher.specs.host import Host
from dsrun.launcher.specs.policies import CheckPolicy

from ...support.elastic_run import Job, lost, started
from ...support.fake_fleet import story
from ...support.node_facts import facts

if TYPE_CHECKING:
    from ...support.elastic_run import FleetOf


# -- a node that comes back -----------------------------------------------------------------------


def test_a_node_that_comes_back_is_in_the_next_round(fleet_of: FleetOf) -> None:
    job = lost(fleet_of)
    job.fleet.node("n1").hello()
    ((kind, start),) = job.fleet.news("n1")
    assert (kind, start["generation"], start["slots"]) == ("START", 0, [0, 1])
    assert (start["master_addr"], start["master_port"]) == ("", 0), "only its round says it"
    assert job.fleet.said("warning") == ["n1 is back"]
    assert job.fleet.kinds("n0") == []
    job.join("n1")
    assert job.fleet.kinds("n0") == ["LEAVE_ROUND"]
    job.join("n0")
    again = job.round("n1")
    assert (again["generation"], again["world_size"], again["first_rank"]) == (3, 4, 2)
    job.round("n0")
    job.up("n0", "n1")
    job.fleet.go(40, silent=["n1"])
    assert "lost n1: no heartbeat for 15 s" in job.fleet.said("warning")[0]


def test_a_node_that_comes_back_as_another_is_not_taken_in(fleet_of: FleetOf) -> None:
    job = lost(fleet_of)
    job.fleet.node("n1").hello(accelerator="rocm")
    job.fleet.step()
    (said,) = job.fleet.said("warning")
    assert said.startswith("cannot use n1: the hosts have different accelerators")
    assert not job.fleet.node("n1").open
    job.fleet.go(2 * PAUSES.first + 1)
    assert job.fleet.backend.started[2:] == [[1]]
    job.fleet.node("n1").hello(accelerator="rocm")
    job.fleet.step()
    assert job.fleet.said("warning") == [], "the same is not said twice"


@pytest.mark.parametrize("strict", [False, True])
def test_a_node_that_comes_back_is_compared_with_those_that_are_there(
    strict: bool, fleet_of: FleetOf
) -> None:
    job = lost(fleet_of, checks=CheckPolicy(strict=strict))
    present = job.run.state.nodes[0]
    assert present.hello is not None
    present.latest = present.hello._replace(facts=facts())
    other = facts(wall=time.time(), env={"NCCL_DEBUG": "WARN"})
    for attempt in range(2):
        job.fleet.node("n1").hello(facts=other)
        job.fleet.step()
        said = job.fleet.said("warning")
        if strict:
            assert [line.startswith("cannot use n1: ") for line in said] == [True] * (not attempt)
            assert not job.fleet.node("n1").open
        else:
            warning, back = ["check: n1: "] * (not attempt), "n1 is back"
            assert [line[:11] for line in said] == [*warning, back]
            job.fleet.node("n1").leaves()
            job.fleet.step()
            job.fleet.said()
        job.fleet.go(2 * PAUSES.first + 1)


def test_what_would_ruin_the_job_keeps_a_node_out(fleet_of: FleetOf) -> None:
    job = lost(fleet_of)
    present = job.run.state.nodes[0]
    assert present.hello is not None
    present.latest = present.hello._replace(facts=facts())
    older = facts().versions | {"torch": "2.3.0"}
    job.fleet.node("n1").hello(facts=facts(wall=time.time(), versions=older))
    job.fleet.step()
    (said,) = job.fleet.said("warning")
    assert said.startswith("cannot use n1: ")
    assert job.fleet.kinds("n0") == []
    job.fleet.go(2 * PAUSES.first + 1)
    job.fleet.node("n1").hello(facts=facts(wall=time.time()))
    job.fleet.step()
    assert job.fleet.said("warning") == ["n1 is back"]


def test_who_comes_back_while_the_job_is_stopped_is_let_go(fleet_of: FleetOf) -> None:
    job = lost(fleet_of)
    job.run.handle(RunState.stop, 15)
    job.fleet.news("n1")
    job.fleet.node("n1").hello()
    job.fleet.step()
    assert (job.fleet.node("n1").open, job.fleet.said("warning")) == (False, [])


def test_an_attempt_that_fails_is_followed_by_another(fleet_of: FleetOf) -> None:
    job = lost(fleet_of)
    job.fleet.emit(SessionEnded(1, "no route"))
    job.fleet.go(2 * PAUSES.first - 0.5)
    assert len(job.fleet.backend.started) == 2
    job.fleet.go(1)
    assert len(job.fleet.backend.started) == 3
    assert job.fleet.said("warning") == [], "of a node that was in, its loss was told"


def test_what_may_run_on_a_lost_node_is_known_until_it_is_back(fleet_of: FleetOf) -> None:
    job = started(fleet_of("n0", "n1"))
    job.fleet.node("n1").leaves()
    job.fleet.step()
    unseen = "may still be running on n1: pids 4002-4003"
    assert job.run.state.nodes[1].left == unseen
    job.fleet.go(PAUSES.first + 0.5)
    job.fleet.emit(SessionEnded(1, "no route"))
    job.fleet.go(2 * PAUSES.first + 1)
    assert job.run.state.nodes[1].left == unseen
    job.fleet.node("n1").hello()
    job.fleet.step()
    assert job.run.state.nodes[1].left == "", "its node launcher looks"


def test_a_node_that_is_back_for_no_round_knows_of_nothing_that_it_had_left(
    fleet_of: FleetOf,
) -> None:
    job = started(fleet_of("n0", "n1"))
    job.fleet.node("n1").leaves()
    job.fleet.go(PAUSES.first + 0.5)
    job.run.handle(RunState.stop, 15)
    job.fleet.node("n1").done()
    job.fleet.node("n0").stops(0, 1)
    job.fleet.step()
    assert story(job.run)["unseen"] == ["may still be running on n1: pids 4002-4003"]


def test_slots_that_only_a_node_knows_are_those_it_comes_with(fleet_of: FleetOf) -> None:
    job = started(fleet_of("n0"))
    job.list_hosts([Host("n0", (0, 1)), Host("n1")])
    job.fleet.step()
    job.fleet.node("n1").hello(slots=3)
    job.fleet.step()
    job.join("n1", "n0")
    assert job.fleet.news("n1")[-1][1]["world_size"] == 5


# -- more nodes, fewer nodes ----------------------------------------------------------------------


def test_rounds_are_resized_within_the_limits(fleet_of: FleetOf) -> None:
    job = started(fleet_of("n0", "n1"), least=1, most=3)
    assert job.resize(1) == "rounds of at most 1 node from now on"
    assert job.fleet.said("warning") == ["resizing to 1 node, as dsrun-job requested"]
    assert [job.fleet.kinds(name) for name in ("n0", "n1")] == [["LEAVE_ROUND"], ["LEAVE_ROUND"]]
    job.join("n0", "n1")
    assert job.round("n0")["world_size"] == 2
    assert job.fleet.news("n1") == [], "it is kept"
    assert job.resize(3) == "rounds of at most 3 nodes from now on; there are 2 now"
    assert job.resize(2) == "rounds of at most 2 nodes from now on"
    for nodes in (0, 4):
        with pytest.raises(DsrunError, match=f"this job takes 1 to 3 nodes, not {nodes}"):
            job.resize(nodes)


def test_hosts_that_are_added_are_reached_and_taken_in(fleet_of: FleetOf) -> None:
    job = started(fleet_of("n0"))
    hosts = [Host("n0", (0, 1)), Host("n1", (0,))]
    assert job.list_hosts(hosts)
    job.fleet.step()
    assert job.fleet.backend.started == [[0], [1]]
    job.fleet.node("n1").hello()
    job.fleet.step()
    assert job.fleet.said("warning") == ["n1 is here"]
    assert job.fleet.kinds("n1") == ["JOB", "START"]
    job.join("n1", "n0")
    assert [one["world_size"] for _, one in job.fleet.news("n1")] == [3]


def test_before_the_start_is_not_the_time_for_another_list(fleet_of: FleetOf) -> None:
    job = Job(fleet_of("n0"))
    assert not job.list_hosts([Host("n1", (0,))])
    job.ready()
    job.run.handle(RunState.stop, 15)
    assert not job.list_hosts([Host("n1", (0,))])
    assert job.fleet.backend.started == [[0]]


def test_no_more_are_reached_than_a_round_has_a_use_for_and_a_few(fleet_of: FleetOf) -> None:
    job = started(fleet_of("n0"), most=2)
    job.list_hosts([Host("n0", (0, 1)), *(Host(f"n{at}", (0,)) for at in range(1, 20))])
    job.fleet.go(5)
    assert len(job.fleet.backend.started) == 1 + 2 + SPARES - 1


def test_a_new_host_that_cannot_be_reached_is_told_with_the_cause(fleet_of: FleetOf) -> None:
    job = started(fleet_of("n0"))
    job.fleet.backend.absent = {"n1", "n2"}
    job.list_hosts([Host("n0", (0, 1)), Host("n1", (0,)), Host("n2", (0,))])
    job.fleet.go(0.5)
    job.fleet.emit(SessionEnded(1, "no route"))
    job.fleet.emit(SessionEnded(2, ""))
    job.fleet.go(1)
    why = "n1 .. n2: no route; trying again"
    assert job.fleet.said("warning") == [f"2 hosts could not be reached: {why}"]


def test_a_host_off_the_list_is_let_go(fleet_of: FleetOf) -> None:
    job = started(fleet_of("n0", "n1"))
    job.list_hosts([Host("n0", (0, 1))])
    assert job.fleet.said("warning") == ["removing n1 from the job"]
    assert job.fleet.news("n1") == [["STOP", {"number": 15, "grace": 30.0}]]
    assert job.fleet.kinds("n0") == ["LEAVE_ROUND"]
    job.join("n0")
    assert job.fleet.kinds("n0") == [], "the other has to end before"
    job.fleet.node("n1").stops(2, 3)
    job.fleet.step()
    assert job.round("n0")["world_size"] == 2
    assert job.run.state.phase is RunPhase.RUNNING
    job.up("n0")
    job.list_hosts([Host("n0", (0, 1)), Host("n1", (0,))])
    job.fleet.go(1)
    assert job.fleet.backend.started == [[0, 1], [1]], "it is on the list again"


def test_a_host_that_is_let_go_and_taken_back_during_the_start_is_started_once(
    fleet_of: FleetOf,
) -> None:
    """The START of its first node launcher waited for the first node's answer."""
    job = Job(fleet_of("n0", "n1"))
    job.fleet.ready(job.run)
    job.list_hosts([Host("n0", (0, 1))])
    assert job.fleet.kinds("n1") == ["JOB", "PROBE", "STOP"]
    job.fleet.node("n1").done()
    job.fleet.step()
    job.list_hosts([Host("n0", (0, 1)), Host("n1", (0, 1))])
    job.fleet.step()
    again = job.fleet.node("n1")
    job.fleet.node("n0").beats()
    job.fleet.step()
    again.hello()
    assert job.fleet.kinds("n1") == ["JOB", "START"]


def test_a_change_is_told_beforehand_to_who_wants_to_know(fleet_of: FleetOf) -> None:
    job = started(fleet_of("n0", "n1"), notice=10.0)
    job.resize(1)
    assert job.fleet.said("warning")[1:] == ["the nodes of the job will change in 10 s"]
    assert [job.fleet.kinds(name) for name in ("n0", "n1")] == [["CHANGE_SOON"], ["CHANGE_SOON"]]
    job.fleet.go(10)
    assert [job.fleet.kinds(name) for name in ("n0", "n1")] == [["LEAVE_ROUND"], ["LEAVE_ROUND"]]
