"""The rounds of an elastic job: nodes that come, wait, and are removed."""

from __future__ import annotations

import pytest

from dsrun.launcher.features.elastic.runner_rounds import NEWCOMERS

from ...support.elastic_rounds import running

# -- nodes that come ------------------------------------------------------------------------------


def test_a_node_that_comes_is_in_the_next_round_at_once() -> None:
    job = running(2)
    job.arrive(2)
    assert job.called == [[0, 1]]
    job.join(0, 1)
    assert (job.formed[1:], job.rounds.restarts) == ([[0, 1, 2]], 0)


def test_a_node_that_comes_to_a_full_round_is_a_spare() -> None:
    job = running(3, most=2)
    assert job.leave(0)
    job.join(1)
    assert job.formed[1:] == [[1, 2]]
    job.arrive(0)
    assert (job.called, len(job.formed)) == ([[1]], 2)
    job.leave(2)
    job.join(1)
    assert job.formed[2:] == [[0, 1]]


def test_a_change_that_can_wait_is_told_before() -> None:
    job = running(2, notice=30.0)
    job.arrive(2)
    assert (job.noticed, job.called) == ([[0, 1]], [])
    job.go(29)
    job.arrive(3)
    assert len(job.noticed) == 1
    assert not job.called
    job.go(1)
    assert job.called == [[0, 1]]
    job.join(0, 1)
    assert job.formed[1:] == [[0, 1, 2, 3]]


def test_a_loss_does_not_wait_for_the_end_of_a_notice() -> None:
    job = running(3, notice=30.0)
    job.arrive(3)
    job.leave(0)
    assert job.called == [[1, 2]]
    job.join(1, 2)
    assert job.formed[1:] == [[1, 2, 3]]
    job.go(60)
    assert len(job.called) == 1, "the notice was for a round that is over"


def test_a_node_that_comes_and_goes_again_changes_nothing() -> None:
    job = running(2, notice=30.0)
    job.arrive(2)
    job.leave(2)
    job.go(30)
    assert not job.called


# -- nodes that have to wait ----------------------------------------------------------------------


def test_more_nodes_wait_until_the_round_has_run_for_a_while() -> None:
    job = running(2, gain_delay=60.0)
    job.arrive(2)
    job.go(59)
    job.arrive(3)
    assert job.called == []
    job.go(1)
    assert job.called == [[0, 1]]
    job.join(0, 1)
    assert job.formed[1:] == [[0, 1, 2, 3]]
    assert len(job.said) == 1


def test_output_of_the_round_ends_the_wait() -> None:
    job = running(2, gain_delay=60.0)
    job.arrive(2)
    job.print()
    assert job.called == [[0, 1]]
    job.join(0, 1)
    job.arrive(3)
    assert len(job.called) == 1, "it was that of the round before"


def test_more_nodes_need_not_wait_once_the_round_has_printed_something() -> None:
    job = running(2, gain_delay=60.0)
    job.print()
    job.arrive(2)
    assert job.called == [[0, 1]]


def test_a_loss_or_a_failure_does_not_wait_for_the_end_of_the_wait() -> None:
    lost, failed = (running(2, gain_delay=60.0) for _ in range(2))
    for job in (lost, failed):
        job.arrive(2)
    lost.leave(0)
    failed.failed("x", 1, 0)
    assert lost.called == failed.called == [[1]]


def test_a_power_cut_and_the_return_cost_two_starts() -> None:
    """While the workers import: one start for the loss, and one for all that come back."""
    job = running(4, gain_delay=60.0)
    job.print()
    job.leave(2)
    job.leave(3)
    job.join(0, 1)
    job.go(5)
    job.arrive(2)
    job.go(3)
    job.arrive(3)
    job.go(2)
    job.print()
    job.join(0, 1)
    assert job.formed[1:] == [[0, 1], [0, 1, 2, 3]]


def test_a_removed_host_does_not_wait_and_takes_the_gain_with_it() -> None:
    job = running(3, gain_delay=60.0)
    job.arrive(3)
    assert job.retire(2)
    assert (job.called, job.released) == ([[0, 1]], [2])
    job.join(0, 1)
    job.done(2)
    assert job.formed[1:] == [[0, 1, 3]]


def test_a_smaller_job_does_not_wait_and_a_larger_one_does() -> None:
    job = running(3, most=3, gain_delay=60.0)
    job.resize(2)
    assert job.called == [[0, 1, 2]]
    job.join(0, 1, 2)
    job.resize(3)
    assert len(job.called) == 1
    job.go(60)
    assert job.called[1:] == [[0, 1]]


def test_the_notice_comes_after_the_wait() -> None:
    job = running(2, gain_delay=60.0, notice=10.0)
    job.arrive(2)
    job.go(60)
    assert (job.noticed, job.called) == ([[0, 1]], [])
    job.go(10)
    assert job.called == [[0, 1]]


def test_a_gain_that_waits_while_another_notice_runs_comes_with_that_change() -> None:
    job = running(3, gain_delay=60.0, notice=30.0)
    job.go(50)
    job.arrive(3)
    job.retire(2)
    assert job.noticed == [[0, 1, 2]]
    job.go(10)
    assert len(job.noticed) == 1
    job.go(20)
    assert (job.called, job.released) == ([[0, 1]], [2])
    job.done(2)
    job.join(0, 1)
    assert job.formed[1:] == [[0, 1, 3]]


def test_a_node_that_finishes_during_a_notice_ends_the_notice() -> None:
    job = running(3, notice=30.0)
    job.retire(2)
    assert job.noticed == [[0, 1, 2]]
    job.finishes(0)
    job.go(30)
    assert (job.called, job.released) == ([], [])


def test_an_excluded_node_that_may_take_part_again_waits_as_well() -> None:
    job = running(3, restarts=9, cool=30.0, gain_delay=60.0)
    for _ in range(3):
        job.failed("x", 1, 2)
        job.join(0, 1, 2)
        job.go(2)
    assert job.formed[-1] == [0, 1]
    before = len(job.called)
    job.go(40)
    assert len(job.called) == before
    job.go(20)
    assert job.called[before:] == [[0, 1]]


def test_who_comes_and_goes_while_it_waits_changes_nothing() -> None:
    job = running(2, gain_delay=60.0)
    job.arrive(2)
    job.leave(2)
    job.go(60)
    assert not job.called


# -- newcomers hold up nobody ---------------------------------------------------------------------


def test_members_do_not_wait_for_a_node_that_is_not_ready() -> None:
    job = running(2)
    assert job.came(2)
    job.failed("rank 0 exited 1", 1, 0)
    job.join(0, 1)
    assert job.formed[1:] == [[0, 1]]
    job.go(NEWCOMERS)
    assert not job.lost, "it may take as long as it likes"
    job.join(2)
    assert job.called[1:] == [[0, 1]]
    job.join(0, 1)
    assert job.formed[2:] == [[0, 1, 2]]


def test_without_enough_members_nodes_that_are_not_ready_are_waited_for() -> None:
    job = running(2, least=2)
    assert job.came(2)
    assert job.leave(1)
    job.join(0)
    assert len(job.formed) == 1
    job.join(2)
    assert job.formed[1:] == [[0, 2]]


def test_without_enough_members_they_are_not_waited_for_for_ever() -> None:
    job = running(2, least=2)
    assert job.came(2)
    assert job.leave(1)
    job.join(0)
    job.go(NEWCOMERS)
    assert (job.lost, job.survives, len(job.formed)) == ([2], False, 1)


def test_after_the_loss_of_all_members_all_that_are_there_are_waited_for() -> None:
    job = running(2, wait=300.0)
    job.leave(0)
    job.leave(1)
    for node in (0, 1):
        assert job.came(node)
    job.join(1)
    assert len(job.formed) == 1
    job.join(0)
    assert job.formed[1:] == [[0, 1]]


def test_after_the_loss_of_all_members_those_that_come_back_later_are_waited_for() -> None:
    job = running(3, wait=120.0)
    for node in (0, 1, 2):
        job.leave(node)
    job.go(10)
    job.arrive(1)
    assert len(job.formed) == 1, "not a round of one"
    job.go(NEWCOMERS - 1)
    job.arrive(0)
    assert len(job.formed) == 1, "nor one of two"
    job.arrive(2)
    assert (job.formed[1:], job.called) == ([[0, 1, 2]], [[1, 2]])
    assert job.said[-1] == "all nodes of the round were lost: waiting 120 s for 2 more to return"


def test_who_is_not_back_in_time_joins_later() -> None:
    job = running(3, wait=120.0)
    for node in (0, 1, 2):
        job.leave(node)
    job.arrive(1)
    job.go(NEWCOMERS - 1)
    assert len(job.formed) == 1
    job.go(1)
    assert job.formed[1:] == [[1]]
    job.arrive(2)
    job.print()
    job.join(1)
    assert job.formed[2:] == [[1, 2]], "it waits once"


def test_losses_that_are_known_one_after_the_other_are_one() -> None:
    """Others work on between, until they are lost as well."""
    job = running(3, wait=120.0)
    job.leave(0)
    job.join(1, 2)
    assert job.formed[1:] == [[1, 2]]
    job.go(NEWCOMERS - 1)
    job.leave(1)
    job.leave(2)
    job.arrive(1, 2)
    assert len(job.formed) == 2
    job.arrive(0)
    assert job.formed[2:] == [[0, 1, 2]]


def test_a_node_that_was_lost_long_before_the_others_is_not_waited_for() -> None:
    job = running(2, wait=120.0)
    job.leave(0)
    job.join(1)
    job.go(NEWCOMERS + 1)
    job.leave(1)
    job.arrive(1)
    assert job.formed[1:] == [[1], [1]]


@pytest.mark.parametrize("removed", [True, False])
def test_a_lost_node_that_is_taken_off_the_list_is_not_waited_for(*, removed: bool) -> None:
    job = running(2, wait=120.0)
    job.leave(0)
    job.leave(1)
    job.arrive(1)
    if removed:
        job.retire(0)
    assert job.formed[1:] == ([[1]] if removed else [])


def test_no_more_are_waited_for_than_a_round_may_have() -> None:
    job = running(3, wait=120.0, most=2)
    for node in (0, 1, 2):
        job.leave(node)
    job.arrive(2)
    assert len(job.formed) == 1
    job.arrive(1)
    assert job.formed[1:] == [[1, 2]]


def test_a_spare_that_is_released_is_not_waited_for() -> None:
    job = running(3, most=2)
    assert job.retire(2)
    job.join(0, 1)
    assert job.formed[1:] == [[0, 1]]


def test_a_member_that_is_removed_while_the_round_ends_is_released() -> None:
    job = running(3)
    job.failed("x", 1, 0)
    assert job.retire(1)
    assert job.released == [1]
    job.join(0, 2)
    assert len(job.formed) == 1, "its workers may still run"
    job.done(1)
    assert job.formed[1:] == [[0, 2]]


def test_who_is_ready_after_it_was_released_is_not_there() -> None:
    job = running(3, most=2)
    assert job.retire(2)
    job.join(2)
    job.leave(1)
    job.join(0)
    assert job.formed[1:] == [[0]]


# -- nodes that are let go ------------------------------------------------------------------------


def test_a_member_is_let_go_before_the_next_round() -> None:
    job = running(3)
    assert job.retire(1)
    assert (job.released, job.called) == ([1], [[0, 2]])
    job.join(0, 2)
    assert len(job.formed) == 1, "its workers may still run"
    assert job.done(1)
    assert (job.formed[1:], job.rounds.restarts) == ([[0, 2]], 0)


def test_all_are_told_before_a_member_is_let_go() -> None:
    job = running(3, notice=30.0)
    assert job.retire(1)
    assert (job.noticed, job.released) == ([[0, 1, 2]], [])
    job.go(30)
    assert (job.released, job.called) == ([1], [[0, 2]])


def test_a_spare_is_let_go_at_once() -> None:
    job = running(3, most=2)
    assert job.retire(2)
    assert (job.released, job.called) == ([2], [])
    assert job.done(2)
    assert job.failed("rank 0 exited 1", 1, 0), "nothing of the work is done"


def test_nobody_is_let_go_of_the_last_that_are_needed() -> None:
    job = running(3, least=2)
    assert job.retire(0)
    assert not job.retire(1)


def test_who_was_to_be_let_go_is_kept_if_the_others_do_not_suffice_any_more() -> None:
    job = running(3)
    job.finishes(2)
    assert job.retire(0)
    assert job.retire(1)
    assert job.leave(2)
    assert (job.called, job.released) == ([[0]], [1])
    job.join(0)
    job.done(1)
    assert job.formed[1:] == [[0]]


def test_a_smaller_job_makes_spares_and_a_larger_one_takes_them_in() -> None:
    job = running(4)
    job.resize(2)
    assert job.called == [[0, 1, 2, 3]]
    job.join(0, 1, 2, 3)
    assert job.formed[1:] == [[0, 1]]
    job.resize(3)
    assert job.called[1:] == [[0, 1]]
    job.join(0, 1)
    assert job.formed[2:] == [[0, 1, 2]]


def test_another_size_that_changes_nothing_calls_nobody() -> None:
    job = running(2)
    job.resize(7)
    assert not job.called
