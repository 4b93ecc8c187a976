"""Histories of a run on a node: what happens, and what is done of it."""

from __future__ import annotations

import signal
from typing import Any

import pytest

from dsrun.launcher.control.messages import Start
from dsrun.launcher.node.run.run_state import GroupEnd, NodeRunPhase, NodeRunState
from dsrun.launcher.node.workers.group import FailureDetails
from dsrun.launcher.node.workers.spawn import Process, WorkerSpec

from ...support.recorder import Recorder

TERM = signal.SIGTERM
START = Start(4, (0, 1), 6, 2, 3, "h", 29500, 1)
NO_DETAILS = FailureDetails({}, {}, {}, {})
CLEAN = GroupEnd([], may_stay=False, failed=False)
END: list[Any] = [("report_end", [], NO_DETAILS, "")]


@pytest.fixture
def do() -> Recorder:
    return Recorder()


def state(do: Recorder, *, elastic: bool = False, preloads: bool = False) -> NodeRunState:
    return NodeRunState(do, elastic=elastic, preloads=preloads)


def running(do: Recorder) -> NodeRunState:
    """A run whose workers run."""
    one = state(do)
    assert do.after(one.started, START) == [("flush_signals", START)]
    assert do.after(one.workers_due, START) == [("start_group", START, [])]
    return one


def process(rank: int) -> Process:
    return Process(WorkerSpec(rank, [b"a"], {}, b"/"), 77, -1, -1, -1)


def test_from_start_to_done(do: Recorder) -> None:
    one = running(do)
    assert one.phase is NodeRunPhase.RUNNING
    ended = process(4)
    assert do.after(one.worker_ended, ended, 0) == [("report_exit", ended, 0)]
    assert do.after(one.group_ended, CLEAN) == END
    assert (one.phase, one.leaves_background) == (NodeRunPhase.ENDED, False)
    assert do.after(one.worker_ended, ended, 0) == []


def test_a_stop_before_the_start_is_the_end(do: Recorder) -> None:
    assert do.after(state(do).stopped, TERM, 9.0) == END
    assert do.after(state(do, preloads=True).stopped, TERM, 9.0) == [("finish_preloader",)]


def test_a_stop_while_signals_settle_starts_nothing(do: Recorder) -> None:
    one = state(do)
    do.after(one.started, START)
    assert do.after(one.stopped, TERM, 9.0) == END
    assert do.after(one.workers_due, START) == []


def test_a_stop_of_workers_waits_for_their_end(do: Recorder) -> None:
    one = running(do)
    done = do.after(one.stopped, TERM, 9.0, reason="why", delivered=True)
    assert done == [("group.stop", TERM, 9.0, True)]
    assert do.after(one.group_ended, CLEAN) == [("report_end", [], NO_DETAILS, "why")]


def test_what_is_left_is_told(do: Recorder) -> None:
    left = GroupEnd([5], may_stay=False, failed=False)
    done = do.after(running(do).group_ended, left)
    assert done == [("report_end", [5], NO_DETAILS, "")]


def test_what_failed_workers_have_left_is_read_before_the_end(do: Recorder) -> None:
    one = running(do)
    failed = GroupEnd([], may_stay=False, failed=True)
    assert do.after(one.group_ended, failed) == [("find_failures",)]
    details = FailureDetails({"4": ["out"]}, {}, {}, {})
    assert do.after(one.failures_found, details) == [("report_end", [], details, "")]


def test_what_may_stay_stays(do: Recorder) -> None:
    one = running(do)
    one.group_ended(GroupEnd([], may_stay=True, failed=False))
    assert one.leaves_background


def test_a_worker_that_cannot_be_started_ends_the_others(do: Recorder) -> None:
    done = do.after(running(do).not_started, START, 5, "no such file")
    assert done == [("report_not_started", 5, "no such file"), ("group.stop", TERM, 0)]


def test_a_signal_is_for_workers_that_run(do: Recorder) -> None:
    assert do.after(state(do).signal_came, signal.SIGUSR1) == []
    one = running(do)
    assert do.after(one.signal_came, signal.SIGUSR1) == [("group.signal_all", signal.SIGUSR1)]
    do.after(one.group_ended, CLEAN)
    assert do.after(one.signal_came, signal.SIGUSR1) == []


def test_another_run_in_its_place_releases_it(do: Recorder) -> None:
    one = state(do)
    assert do.after(one.close) == [("release",)]
    assert one.phase is NodeRunPhase.ENDED


# -- with a preloader -----------------------------------------------------------------------------


def test_input_waits_with_the_workers(do: Recorder) -> None:
    one = state(do, preloads=True)
    assert do.after(one.started, START) == [("preload", START)]
    assert do.after(one.input_came, b"early") == []
    assert do.after(one.preloaded, START) == [("flush_signals", START)]
    assert do.after(one.workers_due, START) == [("start_group", START, [b"early"])]
    assert do.after(one.input_came, b"late") == [("group.feed", b"late")]


def test_workers_that_wait_are_not_started_after_a_stop(do: Recorder) -> None:
    one = state(do, preloads=True)
    do.after(one.started, START)
    assert do.after(one.stopped, TERM, 9.0) == [("preloader.cancel",), ("finish_preloader",)]
    assert do.after(one.preloader_gone) == END


# -- rounds ---------------------------------------------------------------------------------------


def elastic(do: Recorder) -> NodeRunState:
    """A run in a round."""
    one = state(do, elastic=True)
    assert do.after(one.started, START) == [("start_rounds", START)]
    assert do.after(one.workers_requested, START) == [("flush_signals", START)]
    assert do.after(one.workers_due, START) == [("start_group", START, [])]
    return one


def test_the_end_of_a_rounds_workers_is_the_agents(do: Recorder) -> None:
    one, ended = elastic(do), process(5)
    told = [("report_exit", ended, 7), ("rounds.exited", 5, 7)]
    assert do.after(one.worker_ended, ended, 7) == told
    assert do.after(one.round_stopped, TERM, 9.0) == [("group.stop", TERM, 9.0)]
    assert do.after(one.group_ended, CLEAN) == [("rounds.workers_gone",)]
    assert do.after(one.round_stopped, TERM, 9.0) == []


def test_missing_workers_have_failed_for_the_agent(do: Recorder) -> None:
    done = do.after(elastic(do).not_started, START, 5, "why")
    assert done[1:] == [("rounds.exited", 5, 126), ("group.stop", TERM, 0)]


def test_after_the_rounds_the_agent_ends_and_then_the_run(do: Recorder) -> None:
    one = elastic(do)
    do.after(one.group_ended, CLEAN)
    assert do.after(one.rounds_ended, "") == [("rounds.stop",), ("close_rounds",)]
    assert do.after(one.rounds_closed) == [("kill_agent",)]
    assert do.after(one.group_ended, CLEAN) == END


def test_the_reason_for_which_no_round_follows_is_told(do: Recorder) -> None:
    one = elastic(do)
    do.after(one.rounds_ended, "no port")
    do.after(one.group_ended, CLEAN)
    do.after(one.rounds_closed)
    assert do.after(one.group_ended, CLEAN) == [("report_end", [], NO_DETAILS, "no port")]


def test_a_stop_in_a_round_ends_its_workers_first(do: Recorder) -> None:
    one = elastic(do)
    done = do.after(one.stopped, TERM, 9.0)
    assert done == [("rounds.stop",), ("group.stop", TERM, 9.0, False)]
    assert do.after(one.group_ended, CLEAN) == [("close_rounds",)]


def test_workers_of_a_round_that_wait_are_not_started(do: Recorder) -> None:
    one = state(do, elastic=True, preloads=True)
    one.started(START)
    do.after(one.workers_requested, START)
    done = do.after(one.round_stopped, TERM, 9.0)
    assert done == [("preloader.cancel",), ("rounds.not_started", TERM)]


def test_after_the_end_nothing_is_done(do: Recorder) -> None:
    one = running(do)
    do.after(one.group_ended, CLEAN)
    one.group_ended(CLEAN)
    one.stopped(TERM, 9.0)
    one.signal_came(1)
    assert do.after(one.input_came, b"x") == []


def test_what_an_earlier_round_has_left_is_looked_for_before_a_round(do: Recorder) -> None:
    """By a node that joins the job while it runs, to which no master is told."""
    one = state(do, elastic=True)
    late = START._replace(master_addr="")
    done = do.after(one.started, late, looks=True)
    assert done == [("look_for_leftovers",), ("start_rounds", late)]
    assert not one.looks


def test_a_node_that_starts_with_the_others_looks_for_nothing_before_a_round(do: Recorder) -> None:
    one = state(do, elastic=True)
    assert do.after(one.started, START, looks=True) == [("start_rounds", START)]
    assert one.looks


def test_what_ended_jobs_have_left_is_looked_for_once_the_first_workers_run(do: Recorder) -> None:
    one = state(do)
    do.after(one.started, START, looks=True)
    assert one.looks
    done = do.after(one.workers_due, START)
    assert done == [("start_group", START, []), ("look_for_leftovers",)]
    assert not one.looks
