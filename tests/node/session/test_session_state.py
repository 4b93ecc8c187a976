"""Histories of a node's session as values: what happens, what is seen, and what is done of it."""

from __future__ import annotations

import signal

import pytest

from dsrun.launcher.common.errors import LOST as LOST_CODE
from dsrun.launcher.node.session.session_state import (
    Abandon,
    Clear,
    Cleared,
    CloseServices,
    Ended,
    EndSignal,
    Exit,
    GuardDied,
    Heard,
    LetStay,
    Lost,
    Note,
    Phase,
    RunEnded,
    SessionFacts,
    SessionState,
    Spare,
    StopRun,
    TellLeft,
)

IDLE = SessionFacts(
    active=False,
    ended=False,
    grace=9.0,
    by_engine=False,
    held=False,
    background=False,
    stuck=(),
    open=True,
    unsent=0,
    services=False,
)
ACTIVE = IDLE._replace(active=True)
DONE = IDLE._replace(ended=True)
TERM = EndSignal(signal.SIGTERM, delivered=False)
WHY = "the node launcher got SIGTERM"


def test_the_end_of_the_runner_is_the_end() -> None:
    state = SessionState()
    assert state.step(Ended(None), DONE) == [Clear(), Exit()]
    assert (state.phase, state.code, state.leaves) == (Phase.OVER, 0, True)


def test_a_node_that_has_joined_exits_as_the_job() -> None:
    state = SessionState()
    state.step(Ended(7), DONE)
    assert state.code == 7


def test_the_end_waits_for_commands_and_for_what_is_sent() -> None:
    state = SessionState()
    assert state.step(Ended(None), DONE._replace(services=True)) == [Clear(), CloseServices()]
    assert state.step(Cleared(), DONE._replace(unsent=1)) == [Clear()]
    assert (state.phase, state.leaves) == (Phase.CLEARING, True)
    assert state.step(Cleared(), DONE) == [Clear(), Exit()]
    assert SessionState().step(Cleared(), DONE) == []


def test_an_end_kills_what_runs_first_as_the_guard_may_be_dead() -> None:
    state = SessionState()
    assert state.step(Ended(7), ACTIVE) == [StopRun(signal.SIGKILL, 0.0)]
    assert (state.phase, state.code) == (Phase.DISMISSED, 7)
    for event in (TERM, GuardDied(), Lost("why")):
        assert state.step(event, ACTIVE) == [], "it is killed already"
    assert state.step(RunEnded(), DONE) == [Clear(), Exit()]
    assert state.code == 7


def test_a_lost_runner_has_the_workers_stopped_first() -> None:
    state = SessionState()
    gone = Abandon("lost contact with the runner: why")
    assert state.step(Lost("why"), ACTIVE._replace(open=False)) == [gone]
    assert (state.phase, state.code) == (Phase.LEAVING, LOST_CODE)
    assert state.step(RunEnded(), DONE._replace(open=False)) == [TellLeft(), Clear(), Exit()]


@pytest.mark.parametrize(("seen", "code"), [(IDLE, LOST_CODE), (DONE, 0)])
def test_a_runner_that_is_lost_after_a_run_has_done_no_harm(seen: SessionFacts, code: int) -> None:
    state = SessionState()
    assert state.step(Lost("why"), seen) == [Clear(), Exit()]
    assert state.code == code


def test_a_runner_that_is_lost_ends_commands_too() -> None:
    state = SessionState()
    ends = [CloseServices(), Clear(), CloseServices()]
    assert state.step(Lost("why"), DONE._replace(services=True)) == ends
    assert state.step(Cleared(), DONE._replace(open=False)) == [Clear(), Exit()]


def test_a_runner_that_is_lost_at_the_end_takes_nothing_more() -> None:
    state = SessionState()
    state.step(Ended(None), DONE._replace(unsent=1))
    assert state.step(Lost("why"), DONE._replace(open=False)) == [Clear(), Exit()]
    assert state.code == 0


def test_a_signal_stops_the_workers_with_their_grace() -> None:
    state = SessionState()
    stop = StopRun(signal.SIGTERM, 9.0)
    assert state.step(TERM, ACTIVE) == [Note(WHY, signal.SIGTERM), stop]
    assert state.phase is Phase.LEAVING
    assert state.step(RunEnded(), DONE) == []


def test_a_held_node_leaves_after_a_signal() -> None:
    state = SessionState()
    state.step(TERM, ACTIVE._replace(held=True))
    assert state.step(RunEnded(), DONE._replace(held=True)) == [Clear(), Exit()]


def test_a_signal_that_workers_have_got_is_not_passed_on() -> None:
    done = SessionState().step(EndSignal(signal.SIGTERM, delivered=True), ACTIVE)
    assert done[-1] == StopRun(signal.SIGTERM, 9.0, delivered=True)


def test_a_signal_without_workers_is_the_end() -> None:
    assert SessionState().step(TERM, IDLE) == [Clear(), Exit()]
    assert SessionState().step(TERM, DONE) == [Note(WHY, signal.SIGTERM), Clear(), Exit()]


@pytest.mark.parametrize(("by_engine", "grace"), [(False, 0), (True, 9.0)])
def test_without_its_guard_it_leaves_at_once(by_engine: bool, grace: float) -> None:
    """But an engine that ends kills all guards: the workers keep their grace."""
    state, why = SessionState(), "its guard was killed"
    stop = StopRun(signal.SIGTERM, grace, why)
    done = state.step(GuardDied(), ACTIVE._replace(by_engine=by_engine))
    assert done == [Note(why, signal.SIGKILL), stop]
    assert state.code == LOST_CODE


def test_what_a_run_leaves_is_spared() -> None:
    state = SessionState()
    assert state.step(RunEnded(), DONE._replace(background=True, stuck={5})) == [LetStay()]
    assert state.step(RunEnded(), DONE._replace(stuck={5})) == [Spare({5})]
    assert state.phase is Phase.SERVING


def test_a_signal_is_told_of_at_once_where_workers_end_and_only_once() -> None:
    state = SessionState()
    assert state.step(Heard(signal.SIGTERM), ACTIVE) == [Note(WHY, signal.SIGTERM)]
    assert state.step(Heard(signal.SIGTERM), ACTIVE) == []
    phases = [state.phase]  # it is not known yet whether the workers have got it
    assert state.step(TERM, ACTIVE) == [StopRun(signal.SIGTERM, 9.0)]
    assert [*phases, state.phase] == [Phase.SERVING, Phase.LEAVING]


def test_a_signal_that_was_told_of_ends_the_session_after_the_run() -> None:
    state = SessionState()
    state.step(Heard(signal.SIGTERM), ACTIVE)
    assert state.step(TERM, DONE) == [Clear(), Exit()]


def test_a_signal_without_a_run_is_nobodys_yet() -> None:
    assert SessionState().step(Heard(signal.SIGTERM), IDLE) == []
    assert SessionState().step(Heard(signal.SIGTERM), DONE) == []
