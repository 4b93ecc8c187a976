"""How much of its time a job has worked."""

from __future__ import annotations

from dsrun.launcher.features.picture.runner_goodput import seconds_by_cause
from dsrun.launcher.features.picture.runner_timeline import TimelineMark, WorkerSpan

TWO = (WorkerSpan(0, "a", 0, 1.0, 9.0, "ok"), WorkerSpan(1, "a", 0, 2.0, 10.0, "ok"))


def test_it_counts_while_all_ranks_run() -> None:
    assert seconds_by_cause(TWO, (), 2, 10.5) == {"good": 7.0, "start": 2.0, "end": 1.5}


def test_a_restart_costs_from_the_first_end_to_the_last_start() -> None:
    again = tuple(one._replace(began=one.began + 12, ended=None) for one in TWO)
    found = seconds_by_cause((*TWO, *again), (), 2, 20.0)
    assert found == {"good": 13.0, "start": 2.0, "restart": 5.0}


def test_a_hang_is_no_work() -> None:
    hang = TimelineMark(4.0, "hang", "rank 1 sleeps", until=6.5)
    found = seconds_by_cause(TWO, (hang, hang._replace(kind="slow")), 2, 10.0)
    assert found == {"good": 4.5, "start": 2.0, "hang": 2.5, "end": 1.0}


def test_a_hang_until_the_end_lasts_so_long() -> None:
    found = seconds_by_cause(TWO, (TimelineMark(4.0, "hang", "x"),), 2, 10.0)
    assert found == {"good": 2.0, "start": 2.0, "hang": 5.0, "end": 1.0}


def test_a_job_of_which_no_round_was_whole_was_starting() -> None:
    assert seconds_by_cause(TWO, (), 3, 10.0) == {"start": 10.0}
    assert seconds_by_cause((), (), 3, 0.0) == {}
