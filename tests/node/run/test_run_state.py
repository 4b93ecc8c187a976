"""Histories of a run on a node as values: what happens, and what is done of it."""

from __future__ import annotations

import signal
from typing import Any

import pytest

from dsrun.launcher.control.messages import Start
from dsrun.launcher.node.run import run_events as events
from dsrun.launcher.node.run.run_state import Phase, RunState
from dsrun.launcher.node.workers.group import FailureDetails
from dsrun.launcher.node.workers.spawn import Process, WorkerSpec

START = Start(4, (0, 1), 6, 2, 3, "h", 29500, 1)
STARTED = events.Started(START)
STOPPED = events.Stopped(signal.SIGTERM, 9.0)
NO_DETAILS = FailureDetails({}, {}, {}, {})
CLEAN = events.GroupEnded([], may_stay=False, failed=False)
END = events.ReportEnd([], NO_DETAILS, "")


def state(*, elastic: bool = False, preloads: bool = False) -> RunState:
    return RunState(elastic=elastic, preloads=preloads)


def played(one: RunState, *happens: object) -> list[Any]:
    """What is done of the last of these."""
    return [one.step(event) for event in happens][-1]


def running(one: RunState) -> RunState:
    one.step(STARTED)
    assert one.step(events.Due(START)) == [events.StartGroup(START, [])]
    return one


def process(rank: int) -> Process:
    return Process(WorkerSpec(rank, [b"a"], {}, b"/"), 77, -1, -1, -1)


def test_from_start_to_done() -> None:
    one = state()
    assert one.step(STARTED) == [events.Settle(START)]
    assert one.phase is Phase.RUNNING
    assert one.step(events.Due(START)) == [events.StartGroup(START, [])]
    ended = process(4)
    assert one.step(events.WorkerEnded(ended, 0)) == [events.ReportExit(ended, 0)]
    assert one.step(CLEAN) == [END]
    assert (one.phase, one.leaves_background) == (Phase.ENDED, False)
    assert one.step(events.WorkerEnded(ended, 0)) == []


def test_a_stop_before_the_start_is_the_end() -> None:
    assert state().step(STOPPED) == [END]
    assert state(preloads=True).step(STOPPED) == [events.EndPreloader()]


def test_a_stop_while_signals_settle_starts_nothing() -> None:
    one = state()
    one.step(STARTED)
    assert one.step(STOPPED) == [END]
    assert one.step(events.Due(START)) == []


def test_a_stop_of_workers_waits_for_their_end() -> None:
    one = running(state())
    stop = events.Stopped(signal.SIGTERM, 9.0, "why", delivered=True)
    assert one.step(stop) == [events.StopGroup(signal.SIGTERM, 9.0, delivered=True)]
    assert one.step(CLEAN) == [events.ReportEnd([], NO_DETAILS, "why")]


def test_what_is_left_is_told() -> None:
    left = events.GroupEnded([5], may_stay=False, failed=False)
    assert running(state()).step(left) == [events.ReportEnd([5], NO_DETAILS, "")]


def test_what_failed_workers_have_left_is_read_before_the_end() -> None:
    one = running(state())
    failed = events.GroupEnded([], may_stay=False, failed=True)
    assert one.step(failed) == [events.FindFailures()]
    details = FailureDetails({"4": ["out"]}, {}, {}, {})
    assert one.step(events.FailuresFound(details)) == [events.ReportEnd([], details, "")]


def test_what_may_stay_stays() -> None:
    one = running(state())
    one.step(events.GroupEnded([], may_stay=True, failed=False))
    assert one.leaves_background


def test_a_worker_that_cannot_be_started_ends_the_others() -> None:
    done = running(state()).step(events.NotStarted(START, 5, "no such file"))
    stop = events.StopGroup(signal.SIGTERM, 0, delivered=False)
    assert done == [events.ReportNotStarted(5, "no such file"), stop]


def test_a_signal_is_for_workers_that_run() -> None:
    signalled = events.Signalled(signal.SIGUSR1)
    assert state().step(signalled) == []
    assert running(state()).step(signalled) == [events.SignalGroup(signal.SIGUSR1)]
    assert played(running(state()), CLEAN, signalled) == []


def test_another_run_in_its_place_releases_it() -> None:
    one = state()
    assert one.step(events.Closed()) == [events.Release()]
    assert one.phase is Phase.ENDED


# -- with a preloader -----------------------------------------------------------------------------


def test_input_waits_with_the_workers() -> None:
    one = state(preloads=True)
    assert one.step(STARTED) == [events.Preload(START)]
    assert one.step(events.Input(b"early")) == []
    assert one.step(events.Preloaded(START)) == [events.Settle(START)]
    assert one.step(events.Due(START)) == [events.StartGroup(START, [b"early"])]
    assert one.step(events.Input(b"late")) == [events.Feed(b"late")]


def test_workers_that_wait_are_not_started_after_a_stop() -> None:
    one = state(preloads=True)
    one.step(STARTED)
    assert one.step(STOPPED) == [events.CancelPreload(), events.EndPreloader()]
    assert one.step(events.PreloaderGone()) == [END]


# -- rounds ---------------------------------------------------------------------------------------


def elastic() -> RunState:
    one = state(elastic=True)
    assert one.step(STARTED) == [events.BeginRounds(START)]
    assert one.step(events.Requested(START)) == [events.Settle(START)]
    assert one.step(events.Due(START)) == [events.StartGroup(START, [])]
    return one


def test_the_end_of_a_rounds_workers_is_the_agents() -> None:
    one, ended = elastic(), process(5)
    told = [events.ReportExit(ended, 7), events.EndInRound(5, 7)]
    assert one.step(events.WorkerEnded(ended, 7)) == told
    assert one.step(events.RoundStopped(signal.SIGTERM, 9.0)) == [
        events.StopGroup(signal.SIGTERM, 9.0, delivered=False)
    ]
    assert one.step(CLEAN) == [events.EndRound()]
    assert one.step(events.RoundStopped(signal.SIGTERM, 9.0)) == []


def test_missing_workers_have_failed_for_the_agent() -> None:
    done = elastic().step(events.NotStarted(START, 5, "why"))
    assert events.EndInRound(5, 126) in done


def test_after_the_rounds_the_agent_ends_and_then_the_run() -> None:
    one = elastic()
    one.step(CLEAN)
    ends = events.Stopped(signal.SIGTERM, 0, "")
    assert one.step(ends) == [events.StopRounds(), events.CloseRounds()]
    assert one.step(events.RoundsClosed()) == [events.KillAgent()]
    assert one.step(CLEAN) == [END]


def test_a_stop_in_a_round_ends_its_workers_first() -> None:
    one = elastic()
    stop = events.StopGroup(signal.SIGTERM, 9.0, delivered=False)
    assert one.step(STOPPED) == [events.StopRounds(), stop]
    assert one.step(CLEAN) == [events.CloseRounds()]


def test_workers_of_a_round_that_wait_are_not_started() -> None:
    one = state(elastic=True, preloads=True)
    played(one, STARTED, events.Requested(START))
    done = one.step(events.RoundStopped(signal.SIGTERM, 9.0))
    assert done == [events.CancelPreload(), events.NoneInRound(signal.SIGTERM)]


@pytest.mark.parametrize("event", [CLEAN, STOPPED, events.Signalled(1), events.Input(b"x")])
def test_after_the_end_nothing_is_done(event: object) -> None:
    one = running(state())
    one.step(CLEAN)
    assert one.step(event) == []


def test_what_ended_jobs_have_left_is_looked_for_once_the_first_workers_run() -> None:
    one = state()
    one.step(events.Started(START, looks=True))
    assert one.looks
    due = events.Due(START)
    assert one.step(due) == [events.StartGroup(START, []), events.LookForLeftovers()]
    assert not one.looks
