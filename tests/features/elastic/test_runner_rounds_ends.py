"""The rounds of an elastic job: how they come to their end."""

from __future__ import annotations

from ...support.elastic_rounds import Job, running

# -- nodes that have finished -------------------------------------------------------------------


def test_the_job_is_done_once_all_members_have_finished() -> None:
    job = running(3, most=2)
    job.finishes(0)
    job.finishes(0)
    assert not job.ended
    job.finishes(1)
    assert (job.ended, job.called, len(job.formed)) == (True, [], 1)


def test_a_failure_after_some_have_finished_restarts_these_as_well() -> None:
    job = running(3, restarts=1)
    job.finishes(0, 1)
    assert job.failed("rank 2 exited 1", 1, 2)
    assert job.called == [[0, 1]]
    job.join(0, 1, 2)
    assert (job.formed[1:], job.needed[1:]) == ([[0, 1, 2]], [1])
    job.finishes(2)
    assert not job.ended, "what has finished in a former round has to work again"
    job.finishes(0, 1)
    assert job.ended


def test_a_loss_after_some_have_finished_restarts_these_as_well() -> None:
    job = running(3)
    job.finishes(0, 1)
    assert job.leave(2)
    assert job.called == [[0, 1]]
    job.join(0, 1)
    assert job.formed[1:] == [[0, 1]]


def test_the_loss_of_a_node_that_has_finished_is_a_loss() -> None:
    job = running(3)
    job.finishes(0)
    assert job.leave(0)
    assert job.called == [[1, 2]]


def test_the_last_that_finishes_ends_the_job_even_if_the_others_are_called() -> None:
    job = running(2)
    job.finishes(0)
    job.resize(1)
    assert job.leave(0)
    assert job.called == [[1]]
    job.finishes(1)
    assert (job.ended, len(job.formed)) == (True, 1)


def test_members_that_finish_while_they_are_called_end_the_job() -> None:
    job = running(2)
    job.resize(1)
    assert job.called == [[0, 1]]
    job.finishes(0)
    job.join(0)
    assert not job.ended
    job.finishes(1)
    assert (job.ended, len(job.formed)) == (True, 1)


def test_a_part_of_the_work_that_is_lost_is_never_done() -> None:
    job = running(2)
    job.finishes(0)
    job.leave(1)
    assert not job.ended
    job.join(0)
    job.finishes(0)
    assert job.ended, "alone, in another round"


def test_what_has_finished_in_a_former_round_is_old() -> None:
    job = running(2)
    job.join(1, 0)
    job.finished(0, 1)
    job.finished(1, 1)
    assert not job.ended
    job.finished(0, 2)
    job.finished(1, 3)
    assert not job.ended


def test_who_is_ready_again_or_in_no_round_has_not_finished() -> None:
    job = running(3, most=2)
    job.finishes(2)
    job.join(1)
    job.finishes(1, 0)
    assert not job.ended


def test_a_node_that_was_released_has_not_finished() -> None:
    job = running(2)
    job.retire(1)
    job.finishes(0, 1)
    assert not job.ended


def test_a_round_in_which_a_node_has_finished_is_not_changed_for_more_nodes() -> None:
    job = running(2)
    job.finishes(0)
    job.arrive(2)
    job.resize(1)
    assert job.retire(1)
    assert (job.called, job.released) == ([], [])
    assert job.failed("rank 1 exited 1", 1, 1)
    assert (job.called, job.released) == ([[0]], [1])
    job.join(0)
    job.done(1)
    assert job.formed[1:] == [[0]]


def test_a_loss_after_all_have_finished_costs_nothing() -> None:
    job = running(2, least=2)
    job.finishes(0, 1)
    assert job.leave(0)
    assert (job.called, len(job.formed)) == ([], 1)


def test_what_has_finished_at_once_is_told_once() -> None:
    job = running(2, uptime=5.0)
    job.go(1)
    job.finishes(0, 1)
    assert len(job.said) == 1
    assert job.said[0].startswith("workers ended with code 0 after 1.0 s, sooner than")


def test_a_node_that_ends_by_itself_has_finished() -> None:
    """Torch's agents may all be over before the last FINISHED is here."""
    job = running(2)
    job.finishes(0)
    job.done(0)
    assert not job.ended
    job.finishes(1)
    assert job.ended


# -- nodes that are done ------------------------------------------------------------------------


def test_a_node_that_is_done_is_neither_called_nor_waited_for() -> None:
    job = running(3)
    job.done(0)
    assert not job.called
    job.join(2)
    assert job.called == [[1]]
    job.join(1)
    assert job.formed[1:] == [[1, 2]]


def test_a_node_that_is_done_before_its_call_arrives_is_not_waited_for() -> None:
    job = running(3)
    job.join(1, 2)
    assert job.called == [[0, 2]]
    job.done(0)
    assert job.formed[1:] == [[1, 2]]


def test_nothing_is_survived_once_a_part_of_the_work_is_done() -> None:
    job = running(3)
    assert job.done(0)
    assert not job.failed("rank 1", 1, 0)
    assert not job.leave(2)
    assert job.rounds.restarts == 0


def test_the_end_of_one_leaves_the_others_too_few() -> None:
    job = running(2, least=2)
    job.join(1)
    assert not job.done(0)
    assert len(job.formed) == 1


def test_what_is_done_at_once_is_told_of() -> None:
    job = running(2, uptime=5.0)
    job.go(1)
    job.done(0)
    job.done(1)
    words = "workers ended with code 0 after 1.0 s, sooner than --min_uptime 5"
    assert job.said == [f"{words}: was there nothing to do?"]
    job = running(1, uptime=5.0)
    job.go(6)
    job.done(0)
    assert not job.said


def test_members_that_are_done_leave_nothing_to_their_spares() -> None:
    job = running(3, most=2)
    job.done(1)
    job.done(0)
    assert len(job.formed) == 1
    assert not job.called


# -- too few nodes --------------------------------------------------------------------------------


def test_too_few_nodes_wait_for_more() -> None:
    job = running(3, least=2, wait=30.0)
    assert job.leave(0)
    job.join(1, 2)
    assert job.leave(1)
    assert job.said == ["1 node left, but a round needs at least 2: waiting 30 s for more"]
    job.join(2)
    job.go(29)
    job.arrive(0)
    assert job.formed[2:] == [[0, 2]]
    job.go(60)
    assert not job.short


def test_too_few_nodes_for_too_long_are_the_end() -> None:
    job = running(2, least=2, wait=30.0)
    assert job.leave(1)
    assert job.called == [[0]], "nobody works while there are too few"
    job.join(0)
    job.go(29)
    assert not job.short
    job.go(1)
    assert job.short


def test_even_without_any_node_the_job_waits() -> None:
    job = running(1, wait=30.0)
    assert job.leave(0)
    job.arrive(0)
    assert job.formed == [[0], [0]]


def waiting_for_one_that_is_checked() -> Job:
    """A job whose second node has come back just in time, and may not begin yet."""
    job = running(2, least=2, wait=30.0)
    assert job.leave(1)
    job.join(0)
    job.go(29)
    job.unchecked = {1}
    job.arrive(1)
    job.go(29)
    return job


def test_nodes_that_come_in_time_are_waited_for_until_they_may_begin() -> None:
    """The health command takes its time, or a round is held for a node that was silent."""
    job = waiting_for_one_that_is_checked()
    assert not job.short
    job.unchecked = set()
    job.checked()
    job.go(0)
    assert (job.formed[1:], job.short) == ([[0, 1]], False)
    assert job.leave(1)
    job.join(0)
    job.go(29)
    assert not job.short, "another wait"
    job.go(1)
    assert job.short


def test_a_node_that_comes_in_time_and_cannot_begin_was_in_vain() -> None:
    job = waiting_for_one_that_is_checked()
    assert not job.leave(1)
