"""What nodes are sent for a round, and how a node waits for one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dsrun.launcher.control.round_messages import Ranks
from dsrun.launcher.features.elastic import runner_round_changes as run_rounds
from dsrun.launcher.head.run import events
from dsrun.launcher.head.run.run_node import assigned

from ...support.elastic_run import Job

if TYPE_CHECKING:
    from ...support.elastic_run import FleetOf


def test_a_round_is_told_to_its_nodes_alone(fleet_of: FleetOf) -> None:
    job = Job(fleet_of("n0", "n1"))
    job.ready()
    (_, node) = job.run.state.nodes
    plan = assigned(job.run.state.plan, [node])
    job.run.handle(run_rounds.form_round, run_rounds.FormRound([node], plan, "n1", 4000, 2, 1, 3))
    told = job.round("n1")
    names = ("generation", "restarts", "max_restarts", "master_addr", "master_port")
    assert [told[name] for name in names] == [2, 1, 3, "n1", 4000]
    assert job.fleet.news("n0") == []
    assert job.fleet.said() == ["next round: 2 workers on n1"]
    assert job.run.state.record.restarts == 1


def test_a_node_that_is_admitted_gets_a_start_without_a_master(fleet_of: FleetOf) -> None:
    job = Job(fleet_of("n0", "n1"))
    job.ready()
    job.run.handle(run_rounds.admit, job.run.state.nodes[1])
    ((kind, start),) = job.fleet.news("n1")
    assert (kind, start["master_addr"], start["master_port"]) == ("START", "", 0)


def test_a_node_that_is_released_is_stopped_with_grace(fleet_of: FleetOf) -> None:
    job = Job(fleet_of("n0", "n1"))
    job.ready()
    job.run.handle(run_rounds.release, job.run.state.nodes[1])
    ((kind, stop),) = job.fleet.news("n1")
    assert (kind, stop["grace"]) == ("STOP", job.run.spec.supervision.grace)


def test_observers_see_each_round_with_its_nodes(fleet_of: FleetOf) -> None:
    job = Job(fleet_of("n0", "n1"))
    seen: list[object] = []
    job.run.observe(seen.append)
    job.ready()
    node = job.run.state.nodes[1]
    plan = assigned(job.run.state.plan, [node])
    job.run.handle(run_rounds.form_round, run_rounds.FormRound([node], plan, "n1", 4000, 2, 1, 3))
    place = Ranks(0, 2, 0, 1, "n1", 4001, 0, 3)
    job.run.handle(run_rounds.start_round, 3, place, [node])
    rounds = [one for one in seen if isinstance(one, events.Round)]
    assert [(one.number, one.restarts, one.world_size, one.hosts) for one in rounds] == [
        (2, 1, 2, ("n1",)),
        (3, 0, 2, ("n1",)),
    ]
