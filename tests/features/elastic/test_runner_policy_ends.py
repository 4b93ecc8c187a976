"""Rounds of a run: nodes that finish, where they meet, and who has to wait."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from dsrun.launcher.common.errors import LOST, TOO_FEW
from dsrun.launcher.control import frames, messages, round_messages
from dsrun.launcher.features.elastic.runner_admission import PAUSES
from dsrun.launcher.head.run import run_signals
from dsrun.launcher.head.run.run_state import RunState
from dsrun.launcher.head.run.run_view import RunPhase
from dsrun.launcher.specs.host import Host

from ...support.elastic_run import LINE, Job, lost, started
from ...support.fake_fleet import losses, story

if TYPE_CHECKING:
    from ...support.elastic_run import FleetOf


# -- nodes that finish ----------------------------------------------------------------------------


def test_the_job_is_done_once_all_members_have_finished(fleet_of: FleetOf) -> None:
    job = Job(fleet_of("n0", "n1", "n2"), most=2)
    job.ready()
    job.join("n0", "n1", "n2")
    job.up("n0", "n1")
    job.finish("n1", generation=1)
    assert [job.fleet.kinds(name) for name in ("n0", "n1", "n2")] == [[], [], []]
    job.finish("n0", generation=1)
    for name in ("n0", "n1", "n2"):
        assert job.fleet.news(name) == [["STOP", {"number": 15, "grace": 0}]]
        job.fleet.node(name).done()
    job.fleet.step()
    assert (story(job.run)["exit_code"], losses(job.run), job.fleet.said()) == (0, {}, [])


def test_a_failure_after_others_have_finished_restarts_all(fleet_of: FleetOf) -> None:
    job = started(fleet_of("n0", "n1"))
    job.finish("n0", generation=1)
    job.fleet.node("n1").exits(2, 7)
    assert job.fleet.kinds("n0") == ["LEAVE_ROUND"]
    job.join("n0", "n1")
    assert job.round("n0")["generation"] == job.round("n1")["generation"] == 2
    job.up("n0", "n1")
    job.finish("n0", "n1", generation=1)
    assert job.run.state.phase is RunPhase.RUNNING, "that is old"
    job.finish("n0", "n1", generation=2)
    assert [job.fleet.kinds(name) for name in ("n0", "n1")] == [["STOP"], ["STOP"]]


def test_nothing_finishes_before_the_start(fleet_of: FleetOf) -> None:
    job = Job(fleet_of("n0", "n1"))
    job.fleet.node("n1").says(messages.pack(frames.FINISHED, round_messages.Finished(0)))
    job.fleet.step()
    assert "the job has not started" in job.run.state.nodes[1].reason


def test_a_node_that_is_lost_after_all_have_finished_costs_nothing(fleet_of: FleetOf) -> None:
    job = started(fleet_of("n0", "n1"), least=2)
    job.finish("n0", "n1", generation=1)
    job.fleet.node("n1").leaves()
    job.fleet.step()
    assert job.fleet.said("warning") == [f"lost n1: {LINE}; going on without it"]
    job.fleet.node("n0").done()
    job.fleet.step()
    assert (story(job.run)["exit_code"], losses(job.run)) == (0, {})
    assert job.fleet.backend.started == [[0, 1]]


def test_the_last_node_to_end_may_be_a_lost_one(fleet_of: FleetOf) -> None:
    job = started(fleet_of("n0", "n1"))
    job.finish("n0", "n1", generation=1)
    job.fleet.node("n0").done()
    job.fleet.step()
    job.fleet.node("n1").leaves()
    job.fleet.go(1)
    assert story(job.run)["exit_code"] == 0


def test_a_spare_that_does_not_end_is_waited_for_no_longer_than_others(fleet_of: FleetOf) -> None:
    job = Job(fleet_of("n0", "n1"), most=1)
    job.ready()
    job.join("n0", "n1")
    job.up("n0")
    job.finish("n0", generation=1)
    job.fleet.node("n0").done()
    job.fleet.go(40)
    assert (story(job.run)["exit_code"], losses(job.run)) == (0, {})


def test_agents_that_end_by_themselves_before_the_last_finished_is_here(fleet_of: FleetOf) -> None:
    job = started(fleet_of("n0", "n1"))
    job.finish("n0", generation=1)
    job.fleet.node("n0").done()
    job.finish("n1", generation=1)
    assert job.fleet.kinds("n1") == ["STOP"]
    job.fleet.node("n1").done()
    job.fleet.step()
    assert story(job.run)["exit_code"] == 0


def test_a_signal_while_the_nodes_end_is_a_signal(fleet_of: FleetOf) -> None:
    job = started(fleet_of("n0", "n1"))
    job.finish("n0", "n1", generation=1)
    job.run.handle(run_signals.on_end_signal, 15)
    job.fleet.node("n0").done()
    job.fleet.node("n1").done()
    job.fleet.step()
    assert story(job.run)["exit_code"] == 143


# -- where the nodes of a round meet --------------------------------------------------------------


def probed(job: Job, name: str, *verdicts: str) -> dict[str, Any]:
    """Have a node answer the probe that it was sent."""
    ((kind, probe),) = job.fleet.news(name)
    assert kind == "PROBE"
    job.fleet.node(name).says(frames.pack_json(frames.PROBED, {"verdicts": verdicts}))
    job.fleet.step()
    asked: dict[str, Any] = probe
    return asked


def without_first(fleet_of: FleetOf) -> Job:
    """A job that has lost n0, its first node; the others are ready."""
    job = started(fleet_of("n0", "n1", "n2", "n3"))
    job.lose("n0")
    for name in ("n1", "n2", "n3"):
        job.fleet.news(name)
        job.stop_workers(name)
        job.fleet.node(name).says(messages.pack(frames.READY, round_messages.Join(4000, 5000)))
    job.fleet.step()
    job.fleet.said()
    return job


def test_a_new_first_node_is_probed_where_it_listens_for_that(fleet_of: FleetOf) -> None:
    job = without_first(fleet_of)
    assert probed(job, "n2", "no route", "") == {"candidates": ["n1", "10.0.0.1"], "port": 5000}
    assert job.fleet.news("n1") == []
    probed(job, "n3", "", "")
    for name in ("n1", "n2", "n3"):
        start = job.round(name)
        assert (start["master_addr"], start["master_port"]) == ("10.0.0.1", 4000)


def test_a_node_that_reaches_no_address_is_left_out(fleet_of: FleetOf) -> None:
    job = without_first(fleet_of)
    probed(job, "n2", "", "")
    probed(job, "n3", "refused", "no answer")
    why = "cannot reach n1, the first node of the round: n1 (refused); 10.0.0.1 (no answer)"
    assert f"lost n3: {why}; going on without it" in job.fleet.said("warning")
    assert job.round("n2")["nodes"] == 2
    assert not job.fleet.node("n3").open
    job.fleet.go(PAUSES.first + 1)
    assert job.fleet.backend.started[1:] == [[0], [3]], "it may have been a cable"


def test_a_node_that_is_given_up_for_good_is_not_reached_again(fleet_of: FleetOf) -> None:
    job = without_first(fleet_of)
    probed(job, "n2", "", "")
    job.run.handle(lambda _run: job.made[0].lose(3, "it is of no use", for_good=True))
    assert job.round("n2")["nodes"] == 2
    job.fleet.go(60)
    assert [3] not in job.fleet.backend.started


def test_an_answer_for_the_wrong_number_of_addresses_is_invalid(fleet_of: FleetOf) -> None:
    job = without_first(fleet_of)
    probed(job, "n2", "", "", "")
    assert "3 answers for 2 addresses" in job.fleet.said("warning")[0]


def test_an_answer_that_comes_when_all_is_stopped_forms_nothing(fleet_of: FleetOf) -> None:
    job = without_first(fleet_of)
    probed(job, "n2", "", "")
    job.run.handle(RunState.stop, 15)
    job.fleet.news("n3")
    job.fleet.node("n3").says(frames.pack_json(frames.PROBED, {"verdicts": ["", ""]}))
    assert job.fleet.kinds("n2") == ["STOP"]


def test_a_line_that_breaks_while_a_round_is_told_is_a_loss_after_it(fleet_of: FleetOf) -> None:
    """Nobody is told to leave a round that it was not told of."""
    job = Job(fleet_of("n0", "n1", "n2"))
    job.ready()
    job.join("n0", "n1")
    send = job.run.state.nodes[1].connection.send

    def broken(frame: bytes) -> None:
        send(frame)
        job.run.state.nodes[1].connection.close("it broke")
        job.run.handle(RunState.lose, job.run.state.nodes[1], "it broke")

    job.run.state.nodes[1].connection.send = broken  # type: ignore[method-assign]
    job.join("n2")
    assert job.fleet.kinds("n0") == ["ROUND", "LEAVE_ROUND"]
    assert job.fleet.kinds("n2") == ["ROUND", "LEAVE_ROUND"]


# -- nodes that have to wait ----------------------------------------------------------------------


def test_the_first_output_of_a_round_lets_others_join(fleet_of: FleetOf) -> None:
    job = lost(fleet_of, gain_delay=60.0)
    job.fleet.node("n1").hello()
    job.fleet.step()
    job.join("n1")
    assert job.fleet.kinds("n0") == []
    assert "(--gain_delay)" in job.fleet.said("warning")[-1]
    job.fleet.node("n0").prints(0, "epoch 1\n")
    assert job.fleet.kinds("n0") == ["LEAVE_ROUND"]


def test_output_of_a_former_round_lets_nobody_join(fleet_of: FleetOf) -> None:
    job = lost(fleet_of, gain_delay=60.0)
    job.fleet.node("n1").hello()
    job.fleet.step()
    job.fleet.node("n0").exits(0, 7)
    job.fleet.node("n0").exits(1, -15, told=True)
    job.join("n0")
    assert job.fleet.kinds("n0")[-1] == "ROUND"
    job.join("n1")
    job.fleet.node("n0").prints(1, "the end of the old one\n")
    assert job.fleet.kinds("n0") == [], "its workers have not started yet"
    job.fleet.up("n0", 0, 1)
    job.fleet.node("n0").prints(1, "hello\n")
    assert job.fleet.kinds("n0") == ["LEAVE_ROUND"]


# -- nodes that are removed, and lost ------------------------------------------------------------


def hosts_of(*names: str) -> list[Host]:
    return [Host(name, (0, 1)) for name in names]


def test_a_removed_node_stays_if_the_others_are_lost_before_it_has_left(fleet_of: FleetOf) -> None:
    """It has finished its work in a round that a lost node has not."""
    job = started(fleet_of("n0", "n1"))
    job.finish("n0", generation=1)
    job.list_hosts(hosts_of("n1"))
    job.lose("n1")
    assert job.fleet.kinds("n0") == ["LEAVE_ROUND"]
    job.join("n0")
    assert job.round("n0")["nodes"] == 1


@pytest.mark.parametrize(("wait", "code"), [(0.0, LOST), (5.0, TOO_FEW)])
def test_a_job_whose_last_node_ends_as_it_was_removed_has_failed(
    wait: float, code: int, fleet_of: FleetOf
) -> None:
    job = started(fleet_of("n0", "n1"), wait=wait)
    job.list_hosts(hosts_of("n1"))
    assert job.fleet.kinds("n0") == ["STOP"]
    job.fleet.node("n1").leaves()
    job.fleet.step()
    job.fleet.node("n0").stops(0, 1)
    job.fleet.go(6)
    assert story(job.run)["exit_code"] == code


def test_a_node_that_ends_by_itself_after_the_others_were_lost_ends_the_job(
    fleet_of: FleetOf,
) -> None:
    job = started(fleet_of("n0", "n1"))
    job.fleet.node("n1").leaves()
    job.fleet.step()
    job.fleet.node("n0").done()
    job.fleet.step()
    assert story(job.run)["exit_code"] == LOST
