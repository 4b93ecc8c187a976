"""The health command between the rounds of an elastic job, and on nodes that come."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from dsrun.launcher.control import frames
from dsrun.launcher.features.elastic.runner_admission import PAUSES
from dsrun.launcher.features.elastic.runner_round_health import FRESH, RoundHealth
from dsrun.launcher.head.run.run_state import RunState
from dsrun.launcher.head.run.run_view import RunPhase
from dsrun.launcher.specs.policies import CheckPolicy

from ...support import exec_nodes
from ...support.elastic_run import LINE, Job
from ...support.fake_fleet import losses
from ...support.run_nodes import plan_of, sent_nodes

if TYPE_CHECKING:
    from dsrun.launcher.head.run.run_node import RunNode

    from ...support.elastic_run import FleetOf

CHECKS = CheckPolicy(health_command="check", health_timeout=20.0)
BAD = "--health_command failed (exit code 1): bad GPU"


def tell(job: Job, *names: str, code: int = 0) -> None:
    """Have the newest command on nodes end, none of which runs before; a bad one says why."""
    for name in names:
        if code:
            exec_nodes.prints(job.fleet.node(name), b"bad GPU\n")
        exec_nodes.exits(job.fleet.node(name), code)
    job.fleet.step()


def count(job: Job, name: str) -> int:
    """How often the newest node launcher of a host was asked to run the command."""
    return len(exec_nodes.asked(job.fleet.node(name)))


def ready(job: Job, *bad: str) -> None:
    """Have all nodes say HELLO and pass, but for the bad ones, and get START."""
    good = [name for name in job.fleet.hosts if name not in bad]
    for number, name in enumerate(job.fleet.hosts):
        job.fleet.node(name).hello(port=None if number else 29500)
    job.fleet.step()
    tell(job, *bad, code=1)
    tell(job, *good)
    for name in good[1:]:
        job.fleet.node(name).reaches()
    for name in good:
        job.fleet.step()
        job.fleet.node(name).beats()
    job.fleet.step()


def running(fleet_of: FleetOf, *hosts: str, most: int = 9, **limits: Any) -> Job:
    """A job whose first round runs on as many of its nodes as it takes."""
    job = Job(fleet_of(*hosts), most=most, checks=CHECKS, **limits)
    ready(job)
    forget(job, *hosts)
    job.join(*hosts)
    job.up(*hosts[:most])
    forget(job, *hosts)
    return job


def forget(job: Job, *names: str) -> None:
    """Forget what was sent to nodes, and what was said."""
    for name in names:
        job.fleet.news(name)
    job.fleet.said()


def fail(job: Job, name: str) -> None:
    """Have the workers of a node fail, and all nodes of the round be ready for another."""
    node = next(one for one in job.run.state.nodes if one.name == name)
    for worker in node.node.workers():
        job.fleet.node(name).exits(worker.rank, 7)
    job.fleet.step()
    job.join(*[one.name for one in job.run.state.nodes if one.number in job.rounds._rounds.members])


def test_who_has_just_passed_at_the_start_is_not_asked_again(fleet_of: FleetOf) -> None:
    job = running(fleet_of, "n0", "n1")
    assert job.run.state.plan.world_size == 4
    assert count(job, "n0") == 0, "since the start"


def test_every_member_is_asked_before_the_next_round(fleet_of: FleetOf) -> None:
    job = running(fleet_of, "n0", "n1")
    fail(job, "n1")
    assert [count(job, name) for name in ("n0", "n1")] == [1, 1]
    tell(job, "n0")
    assert not job.fleet.node("n0").got(frames.ROUND)()
    tell(job, "n1")
    assert all(node.got(frames.ROUND)() for node in job.fleet.nodes())


def test_a_member_that_fails_is_left_out_and_its_failure_not_counted(fleet_of: FleetOf) -> None:
    job = running(fleet_of, "n0", "n1")
    fail(job, "n1")
    job.fleet.said()
    tell(job, "n1", code=1)
    assert job.fleet.said("warning") == [
        f"lost n1: {BAD}; going on without it",
        "that restart is not counted: a node was lost",
    ]
    assert not job.fleet.node("n1").open
    tell(job, "n0")
    job.fleet.step()
    assert job.fleet.node("n0").got(frames.ROUND)()
    assert job.run.state.plan.world_size == 2


def test_a_spare_that_passes_takes_the_place(fleet_of: FleetOf) -> None:
    job = running(fleet_of, "n0", "n1", "n2", most=2)
    job.fleet.go(FRESH)
    fail(job, "n1")
    tell(job, "n1", code=1)
    assert count(job, "n2") == 1, "it passed long ago"
    tell(job, "n0", "n2")
    job.join()
    assert [node.host.name for node in job.run.state.plan.nodes] == ["n0", "n2"]


def test_a_node_that_is_lost_meanwhile_is_just_lost(fleet_of: FleetOf) -> None:
    job = running(fleet_of, "n0", "n1")
    fail(job, "n1")
    job.fleet.said()
    job.fleet.node("n1").leaves()
    job.fleet.step()
    assert job.fleet.said("warning")[:1] == [f"lost n1: {LINE}; going on without it"]
    tell(job, "n0")
    assert job.fleet.node("n0").got(frames.ROUND)()


def test_a_job_ends_if_too_few_nodes_pass(fleet_of: FleetOf) -> None:
    job = running(fleet_of, "n0", "n1", least=2)
    fail(job, "n1")
    tell(job, "n1", code=1)
    assert job.run.state.phase is RunPhase.STOPPING
    job.fleet.node("n0").stops(0, 1)
    job.fleet.step()
    assert losses(job.run) == {"n1": BAD}


def test_a_node_that_fails_at_the_start_is_left_out_and_looked_at_again(fleet_of: FleetOf) -> None:
    job = Job(fleet_of("n0", "n1"), checks=CHECKS)
    ready(job, "n1")
    assert job.fleet.said("warning") == [f"n1: {BAD}; starting without it"]
    job.join("n0")
    job.up("n0")
    job.fleet.go(PAUSES.first + 0.5)
    job.fleet.node("n1").hello()
    job.fleet.step()
    assert count(job, "n1") == 1
    tell(job, "n1", code=1)
    assert job.fleet.said("warning") == [], "the same is not said twice"
    assert not job.fleet.node("n1").open
    job.fleet.go(2 * PAUSES.first + 0.5)
    job.fleet.node("n1").hello()
    job.fleet.step()
    job.fleet.node("n1").leaves()
    job.fleet.step()
    assert job.fleet.said("warning") == [f"cannot use n1: {LINE}"]
    job.fleet.go(4 * PAUSES.first + 0.5)
    job.fleet.node("n1").hello()
    job.fleet.step()
    assert job.fleet.kinds("n0") == [], "the round goes on meanwhile"
    tell(job, "n1")
    assert job.fleet.said("warning") == ["n1 is back"]
    job.join("n1")
    job.fleet.step()
    assert job.fleet.kinds("n0") == ["LEAVE_ROUND"]


def test_the_end_of_a_job_stops_the_command(fleet_of: FleetOf) -> None:
    job = running(fleet_of, "n0", "n1")
    fail(job, "n1")
    job.run.handle(RunState.stop, 15)
    job.fleet.step()
    assert all(exec_nodes.was_sent(node, frames.EXEC_STOP) for node in job.fleet.nodes())
    assert job.run.state.phase is RunPhase.STOPPING


@pytest.mark.parametrize(("seconds", "fresh"), [(FRESH - 1.0, True), (FRESH + 1.0, False)])
def test_having_passed_counts_for_a_while(seconds: float, fresh: bool) -> None:
    (node,) = sent_nodes(plan_of(1))
    asked: list[object] = []

    def check(node: RunNode) -> None:
        node.busy = True
        asked.append(node)

    health = RoundHealth(needed=True, clock=lambda: seconds, check=check)
    assert not health.passed([node])
    node.passed_at = 0.0
    assert health.passed([node]) is fresh
    health.check([node])
    health.check([node])
    assert asked == [node] * (not fresh)
    health.began([node])
    assert not health.passed([node])
