"""Where the nodes of the next round meet: probes before it, and nodes that stand in the way."""

from __future__ import annotations

from typing import Any

from dsrun.launcher.features.elastic.runner_master_selection import PROBE

from ...support.elastic_rounds import Job, running

PATIENCE = 60.0


def wall(job: Job, *pairs: tuple[int, int]) -> None:
    """Let these pairs of nodes not reach each other."""
    job.walls |= {frozenset(pair) for pair in pairs}


def without_first(nodes: int, **limits: Any) -> Job:
    """A job that has lost its node 0 before the other nodes are ready again."""
    job = running(nodes, **limits)
    job.leave(0)
    return job


def test_what_the_start_has_verified_costs_no_probe() -> None:
    job = running(3)
    job.failed("rank 1 exited 1", 1, 1)
    job.join(0, 1, 2)
    assert (job.formed, job.probed) == ([[0, 1, 2]] * 2, [])


def test_another_first_node_is_probed_once_by_all_others() -> None:
    job = without_first(4)
    job.join(1, 2, 3)
    assert (job.probed, job.formed[1:]) == ([(1, [2, 3])], [[1, 2, 3]])
    job.join(1, 2, 3)
    assert (len(job.probed), job.formed[2:]) == (1, [[1, 2, 3]])


def test_a_node_that_comes_back_probes_the_first_one_alone() -> None:
    job = running(3)
    job.leave(2)
    job.join(0, 1)
    job.arrive(2)
    job.join(0, 1)
    assert (job.probed, job.formed[2:]) == ([(0, [2])], [[0, 1, 2]])


def test_a_first_node_that_comes_back_is_probed_again_by_all() -> None:
    job = without_first(3)
    job.join(1, 2)
    job.arrive(0)
    job.join(1, 2)
    assert (job.probed[1:], job.formed[2:]) == ([(0, [1, 2])], [[0, 1, 2]])


def test_a_member_that_does_not_reach_the_first_is_given_up() -> None:
    job = without_first(4)
    wall(job, (1, 3))
    job.join(1, 2, 3)
    assert (job.lost, job.formed[1:]) == ([3], [[1, 2]])
    why = "cannot reach n1, the first node of the round: a1 (no route); b1 (no route)"
    assert job.reasons == {3: why}
    assert not job.for_good


def test_the_second_time_it_is_given_up_for_good() -> None:
    job = without_first(4)
    wall(job, (1, 3))
    job.join(1, 2, 3)
    job.arrive(3)
    job.join(1, 2)
    assert (job.lost, job.for_good, job.formed[2:]) == ([3, 3], [3], [[1, 2]])


def test_a_first_node_that_most_do_not_reach_is_given_up_itself() -> None:
    job = without_first(5)
    wall(job, (1, 2), (1, 3), (1, 4))
    job.join(1, 2, 3, 4)
    assert (job.lost, job.formed[1:]) == ([1], [[2, 3, 4]])
    assert job.reasons[1] == "3 of 3 nodes cannot reach it; n2: a1 (no route); b1 (no route)"


def test_of_two_members_the_one_that_cannot_reach_is_given_up() -> None:
    job = without_first(3)
    wall(job, (1, 2))
    job.join(1, 2)
    assert (job.lost, job.formed[1:]) == ([2], [[1]])


def test_a_new_first_node_that_a_member_does_not_reach_is_given_up_itself() -> None:
    job = without_first(2)
    job.join(1)
    wall(job, (0, 1))
    job.arrive(0)
    job.join(1)
    assert (job.lost, job.formed[1:]) == ([0], [[1], [1]])


def test_thousands_that_are_given_up_are_one_change() -> None:
    job = without_first(3000, most=3000)
    wall(job, *((1, node) for node in range(2, 1400)))
    for node in range(1, 3000):
        job.tell(job.rounds.node_ready, node)
    job.clock.settle()
    assert (len(job.lost), len(job.formed)) == (1398, 2)
    assert job.formed[1] == [1, *range(1400, 3000)]


def test_a_job_that_needs_a_node_which_is_given_up_is_over() -> None:
    job = without_first(4, least=3)
    wall(job, (1, 3), (1, 2))
    job.survives = True
    job.join(1, 2, 3)
    assert (job.survives, len(job.formed)) == (False, 1)


# -- probes that take their time ------------------------------------------------------------------


def test_a_first_node_that_is_ready_anew_is_probed_anew() -> None:
    """It may listen at another port by now."""
    job = without_first(4)
    job.silent = {2, 3}
    job.join(1, 2, 3)
    job.join(1)
    job.silent = set()
    for node in (2, 3):
        job.tell(job.rounds.node_reached, node, ["refused"] * 2)
    job.clock.settle()
    assert (job.lost, job.probed[1:], job.formed[1:]) == ([], [(1, [2, 3])], [[1, 2, 3]])


def test_a_loss_while_nodes_are_probed_is_another_round() -> None:
    job = without_first(4)
    job.silent = {3}
    job.join(1, 2, 3)
    assert (job.probed, len(job.formed)) == ([(1, [2, 3])], 1)
    assert job.leave(3)
    assert job.formed[1:] == [[1, 2]]


def test_the_loss_of_the_first_while_it_is_probed_is_another_first() -> None:
    job = without_first(4)
    job.silent = {3}
    job.join(1, 2, 3)
    assert job.leave(1)
    assert len(job.formed) == 1, "one probe at a time"
    job.silent = set()
    job.answer(1, 3)
    job.clock.settle()
    assert job.probed[1:] == [(2, [3])]
    assert job.formed[1:] == [[2, 3]]


def test_a_member_that_never_answers_is_given_up_as_one_that_does_not_get_ready() -> None:
    job = without_first(4, patience=PATIENCE)
    job.silent = {3}
    job.join(1, 2, 3)
    job.go(PATIENCE - 1)
    assert len(job.formed) == 1
    job.go(1)
    assert (job.lost, job.formed[1:]) == ([3], [[1, 2]])
    assert job.reasons[3] == "it did not answer a probe within 60 s"


def test_a_new_node_that_never_answers_costs_the_members_a_moment() -> None:
    job = running(2, patience=PATIENCE)
    job.silent = {2}
    job.arrive(2)
    job.join(0, 1)
    job.go(PROBE - 1)
    assert len(job.formed) == 1
    job.go(1)
    assert (job.lost, job.formed[1:]) == ([2], [[0, 1]])


def test_in_the_first_round_nobody_is_new() -> None:
    job = Job(2, patience=PATIENCE)
    job.came(2)
    job.silent = {2}
    job.join(0, 1, 2)
    job.go(PATIENCE - 1)
    assert not job.formed
    job.go(1)
    assert (job.lost, job.formed) == ([2], [[0, 1]])


def test_who_gets_ready_while_others_are_probed_waits_for_a_later_round() -> None:
    job = without_first(3, gain_delay=20.0)
    job.silent = {2}
    job.join(1, 2)
    job.arrive(0)
    assert len(job.formed) == 1
    job.silent = set()
    job.answer(1, 2)
    job.clock.settle()
    assert job.formed[1:] == [[1, 2]]
    assert job.called[1:] == []
    job.go(20)
    assert job.called[1:] == [[1, 2]]
    job.join(1, 2)
    assert job.formed[2:] == [[0, 1, 2]]


def test_a_smaller_size_while_nodes_are_probed_holds_at_once() -> None:
    job = without_first(4)
    job.silent = {3}
    job.join(1, 2, 3)
    job.resize(2)
    job.clock.settle()
    assert job.formed[1:] == [[1, 2]]


def test_a_node_that_is_removed_while_nodes_are_probed_is_released() -> None:
    job = without_first(4)
    job.silent = {3}
    job.join(1, 2, 3)
    assert job.retire(3)
    assert (job.released, len(job.formed)) == ([3], 1)
    assert job.done(3)
    assert job.formed[1:] == [[1, 2]]


def test_nothing_is_formed_of_answers_that_come_when_the_job_is_stopped() -> None:
    job = without_first(3)
    job.silent = {2}
    job.join(1, 2)
    job.close()
    job.silent = set()
    job.answer(1, 2)
    job.go(200)
    assert (len(job.formed), job.lost) == (1, [])
