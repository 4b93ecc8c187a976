"""The rounds of an elastic job: who takes part, who is called, and when it is over."""

from __future__ import annotations

from dsrun.launcher.features.elastic.runner_rounds import NEWCOMERS

from ...support.elastic_rounds import Job, running

# -- the first round ----------------------------------------------------------------------------


def test_the_first_round_waits_for_all() -> None:
    job = Job(3)
    job.join(0, 1)
    assert not job.formed
    job.join(2)
    assert (job.formed, job.needed, job.rounds.generation) == ([[0, 1, 2]], [0], 1)
    assert not job.called


def test_ranks_follow_the_hosts_not_who_came_first() -> None:
    job = Job(4)
    job.join(2, 0, 3, 1)
    assert job.formed == [[0, 1, 2, 3]]


def test_a_node_lost_before_the_first_round_is_not_waited_for() -> None:
    job = Job(3)
    job.join(0, 2)
    assert job.leave(1)
    assert job.formed == [[0, 2]]
    assert not job.called


# -- failures -----------------------------------------------------------------------------------


def test_after_a_failure_all_others_are_called_once_and_meet_again() -> None:
    job = running(3)
    assert job.failed("rank 1 exited 3", 1, 0)
    assert job.called == [[1, 2]], "at once, and not where it failed"
    job.join(1, 2)
    assert len(job.formed) == 1
    job.join(0)
    assert (job.formed[1:], job.called, job.needed) == ([[0, 1, 2]], [[1, 2]], [0, 1])


def test_every_round_can_be_called_anew() -> None:
    job = running(2)
    job.join(1, 0)
    job.join(0, 1)
    assert job.called == [[0], [1]]
    assert job.rounds.generation == 3


def test_failures_in_one_round_count_once() -> None:
    job = running(3, restarts=1)
    assert all(job.failed(f"rank {rank} exited 1", 1, 0) for rank in (2, 0, 1))
    assert job.rounds.restarts == 1
    assert job.said == ["restart 1/1: rank 2 exited 1"]


def test_a_job_fails_for_good_when_its_restarts_are_used_up() -> None:
    job = running(2, restarts=2)
    for _ in range(2):
        assert job.failed("rank 0 exited 1", 1, 0)
        job.join(0, 1)
        job.go(1)
    assert not job.failed("rank 0 exited 1", 1, 0)
    assert (job.rounds.restarts, len(job.said)) == (2, 2)


def test_without_restarts_the_first_failure_is_the_last() -> None:
    job = running(2, restarts=0)
    assert not job.failed("rank 0 exited 1", 1, 0)
    assert not job.said


# -- nodes that are lost ------------------------------------------------------------------------


def test_survivors_are_called_once_and_go_on_without_the_lost_node() -> None:
    job = running(4)
    assert job.leave(1)
    assert job.called == [[0, 2, 3]]
    job.join(3, 0, 2)
    assert (job.formed[1:], job.called) == ([[0, 2, 3]], [[0, 2, 3]])


def test_a_lost_node_needs_no_restart() -> None:
    job = running(3, restarts=0)
    job.leave(2)
    job.join(0, 1)
    assert job.needed == [0, 0]


def test_two_nodes_lost_at_once_are_one_change() -> None:
    job = running(4)
    assert job.leave(0)
    assert job.leave(3)
    job.join(1, 2)
    assert (job.called, job.formed[1:]) == ([[1, 2, 3]], [[1, 2]])


def test_the_last_that_was_waited_for_is_lost() -> None:
    job = running(3)
    job.join(0, 2)
    assert job.leave(1)
    assert job.formed[1:] == [[0, 2]]


def test_a_node_lost_while_it_waits_takes_no_part() -> None:
    job = running(3)
    job.join(1)
    assert job.leave(1)
    job.join(0, 2)
    assert job.formed[1:] == [[0, 2]]


def test_below_the_least_the_job_is_over() -> None:
    job = running(3, least=2)
    assert job.leave(0)
    assert not job.leave(1)
    job = running(3, least=3)
    assert not job.leave(2)
    assert not job.called


# -- spares -------------------------------------------------------------------------------------


def test_nodes_beyond_the_most_are_spares() -> None:
    job = Job(4, most=2)
    job.join(3, 2, 1, 0)
    assert job.formed == [[0, 1]]
    assert not job.called


def test_a_failure_does_not_call_spares() -> None:
    job = running(3, most=2)
    job.join(1, 0)
    assert (job.called, job.formed[1:]) == ([[0]], [[0, 1]])


def test_a_spare_takes_over_from_a_lost_member() -> None:
    job = running(4, least=2, most=2)
    assert job.leave(0)
    assert job.called == [[1]]
    job.join(1)
    assert job.formed[1:] == [[1, 2]]
    assert job.leave(2)
    job.join(1)
    assert job.formed[2:] == [[1, 3]]
    assert not job.leave(3)


def test_spares_take_over_from_all_members() -> None:
    job = running(4, most=2)
    assert job.leave(0)
    assert job.leave(1)
    assert (job.called, job.formed[1:]) == ([[1]], [[2, 3]])


def test_a_lost_spare_changes_nothing() -> None:
    job = running(3, most=2)
    assert job.leave(2)
    assert not job.called
    assert len(job.formed) == 1
    job.join(0, 1)
    assert job.formed[1:] == [[0, 1]]


def test_nothing_is_formed_once_the_job_is_stopped() -> None:
    job = running(2)
    job.close()
    job.join(0, 1)
    assert len(job.formed) == 1


# -- sizes that a plan allows ---------------------------------------------------------------------


def test_a_round_has_a_size_that_is_allowed() -> None:
    job = Job(4)
    job.sizes = {2, 3}
    job.join(0, 1, 2, 3)
    assert job.formed == [[0, 1, 2]]
    job.leave(1)
    job.join(0, 2)
    assert job.formed[1:] == [[0, 2, 3]]


def test_without_an_allowed_size_the_job_is_over() -> None:
    job = Job(3)
    job.sizes = {3}
    job.join(0, 1, 2)
    job.leave(1)
    job.join(0, 2)
    assert job.short


# -- failures that come of a loss -----------------------------------------------------------------


def test_a_failure_that_the_loss_of_a_node_has_brought_is_not_counted() -> None:
    job = running(3, restarts=1)
    assert job.failed("rank 1 exited 1", 1, 1)
    job.join(1)
    assert job.leave(0)
    job.join(2)
    assert (job.formed[1:], job.needed[1:]) == ([[1, 2]], [0])
    assert job.failed("rank 1 exited 1", 1, 1), "the budget is whole"


def test_what_fails_behind_a_loss_is_not_counted() -> None:
    job = running(3, restarts=0)
    assert job.leave(0)
    assert job.failed("rank 1 exited 1", 1, 1)
    job.join(1, 2)
    assert job.needed[1:] == [0]


def test_a_failure_beyond_the_budget_may_be_a_loss() -> None:
    job = running(3, restarts=0)
    assert not job.failed("rank 1 exited 1", 1, 1)
    job.join(1, 2)
    assert job.leave(0)
    job.go(0.5)
    assert (len(job.formed), job.decided) == (1, [])
    job.go(0.5)
    assert (job.formed[1:], job.decided) == ([[1, 2]], [True])


def test_a_failure_beyond_the_budget_begins_no_other_round() -> None:
    """All are ready for one when it is decided."""
    job = running(3, restarts=0)
    assert not job.failed("rank 1 exited 1", 1, 1)
    job.join(0, 1, 2)
    job.go(2)
    assert (len(job.formed), job.decided) == (1, [False])


def test_the_later_of_two_failures_beyond_the_budget_is_decided_as_well() -> None:
    job = running(4, restarts=0)
    for node in (1, 2):
        assert not job.failed(f"rank {node} exited 1", 1, node)
        job.go(0.25)
    assert job.leave(3)
    job.join(0, 1, 2)
    job.go(0.5)
    assert (len(job.formed), job.decided) == (1, [True])
    job.go(0.5)
    assert (job.formed[1:], job.decided) == ([[0, 1, 2]], [True, True])


def test_nothing_is_decided_once_the_job_is_stopped() -> None:
    job = running(2, restarts=0)
    assert not job.failed("rank 1 exited 1", 1, 1)
    job.close()
    job.go(2)
    assert job.decided == []


def test_where_no_node_may_be_lost_a_failure_is_one() -> None:
    for job in (
        running(2, least=2, restarts=0),
        running(1, restarts=0),
        running(2, least=2, restarts=0, wait=5.0),
    ):
        assert not job.failed("rank 0 exited 1", 1, 0)
        assert job.decided == ([] if job.limits.wait else [False])


# -- lost nodes whose workers may still run -------------------------------------------------------


def awaiting(seconds: float, *lost: int) -> Job:
    """A job that has lost nodes of four, which end their workers in so many seconds."""
    job = running(4, restarts=1)
    for node in lost:
        job.tell(job.rounds.node_vanishing, node, seconds)
        assert job.leave(node)
    job.join(*{0, 1, 2, 3}.difference(lost))
    return job


def test_the_next_round_waits_until_the_workers_of_a_lost_node_must_have_ended() -> None:
    job = awaiting(2.0, 0)
    job.go(1.5)
    assert len(job.formed) == 1
    job.go(0.5)
    assert job.formed[1:] == [[1, 2, 3]]


def test_it_waits_no_longer_than_until_the_last_of_them_is_known_to_have_ended() -> None:
    job = awaiting(9.0, 2, 3)
    job.tell(job.rounds.workers_gone, 2)
    job.tell(job.rounds.workers_gone, 2)
    assert len(job.formed) == 1
    job.tell(job.rounds.workers_gone, 3)
    assert job.formed[1:] == [[0, 1]]


def test_what_fails_before_a_loss_does_not_shorten_the_wait() -> None:
    job = running(3, restarts=1)
    assert job.failed("rank 1 exited 1", 1, 1)
    job.join(1, 2)
    job.tell(job.rounds.node_vanishing, 0, 2.0)
    assert job.leave(0)
    job.go(1)
    assert len(job.formed) == 1
    job.go(1)
    assert job.formed[1:] == [[1, 2]]


def test_a_node_that_is_being_removed_still_has_workers() -> None:
    job = running(3)
    assert job.retire(0)
    job.tell(job.rounds.node_vanishing, 0, 2.0)
    assert job.leave(0)
    job.join(1, 2)
    job.go(1)
    assert len(job.formed) == 1
    job.go(1)
    assert job.formed[1:] == [[1, 2]]


def test_who_has_no_workers_any_more_is_not_waited_for() -> None:
    job = running(4, most=3)
    job.finishes(0)
    job.join(1)
    for node in (0, 1, 3):
        job.tell(job.rounds.node_vanishing, node, 60.0)
        assert job.leave(node)
    job.join(2)
    assert job.formed[1:] == [[2]]


# -- nodes that do not answer ---------------------------------------------------------------------


def test_a_member_that_does_not_get_ready_again_is_lost() -> None:
    job = running(3, patience=40.0)
    job.join(1, 2)
    job.go(39)
    assert not job.lost
    job.go(1)
    assert (job.lost, job.formed[1:]) == ([0], [[1, 2]])


def test_a_node_that_never_gets_ready_is_lost() -> None:
    job = Job(3)
    job.join(0, 2)
    job.go(NEWCOMERS)
    assert (job.lost, job.formed) == ([1], [[0, 2]])


def test_patience_ends_with_its_round() -> None:
    job = running(2, patience=40.0)
    job.join(1, 0)
    job.go(40)
    assert not job.lost
