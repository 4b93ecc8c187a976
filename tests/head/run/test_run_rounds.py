"""What nodes are sent for a round, and how a node waits for one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dsrun.launcher.head.run import decisions
from dsrun.launcher.head.run.run_node import assigned

from ...support.elastic_run import Job

if TYPE_CHECKING:
    from ...support.elastic_run import FleetOf


def test_a_round_is_told_to_its_nodes_alone(fleet_of: FleetOf) -> None:
    job = Job(fleet_of("n0", "n1"))
    job.ready()
    (_, node) = job.run.nodes
    plan = assigned(job.run.plan, [node])
    job.run.handle(decisions.FormRound([node], plan, "n1", 4000, 2, 1, 3))
    told = job.round("n1")
    names = ("generation", "restarts", "max_restarts", "master_addr", "master_port")
    assert [told[name] for name in names] == [2, 1, 3, "n1", 4000]
    assert job.fleet.news("n0") == []
    assert job.fleet.said() == ["next round: 2 workers on n1"]


def test_a_node_that_is_admitted_gets_a_start_without_a_master(fleet_of: FleetOf) -> None:
    job = Job(fleet_of("n0", "n1"))
    job.ready()
    job.run.handle(decisions.Admit(job.run.nodes[1]))
    ((kind, start),) = job.fleet.news("n1")
    assert (kind, start["master_addr"], start["master_port"]) == ("START", "", 0)


def test_a_node_that_is_released_is_stopped_with_grace(fleet_of: FleetOf) -> None:
    job = Job(fleet_of("n0", "n1"))
    job.ready()
    job.run.handle(decisions.Release(job.run.nodes[1]))
    ((kind, stop),) = job.fleet.news("n1")
    assert (kind, stop["grace"]) == ("STOP", job.run.spec.supervision.grace)
