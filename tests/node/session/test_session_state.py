"""Histories of a node's session: what happens, how things are then, and what is done of it."""

from __future__ import annotations

import signal

import pytest

from dsrun.launcher.common.errors import LOST
from dsrun.launcher.node.session.session_state import (
    SessionPhase,
    SessionSnapshot,
    SessionState,
)

from ...support.recorder import Recorder

IDLE = SessionSnapshot(
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
TERM = signal.SIGTERM
WHY = "the node launcher received SIGTERM"
LEAVES = [("clear",), ("exit",)]


@pytest.fixture
def do() -> Recorder:
    return Recorder()


@pytest.fixture
def state(do: Recorder) -> SessionState:
    return SessionState(do)


def test_the_end_of_the_runner_is_the_end(do: Recorder, state: SessionState) -> None:
    assert do.after(state.runner_ended, DONE, None) == LEAVES
    assert (state.phase, state.code, state.leaves) == (SessionPhase.OVER, 0, True)


def test_a_node_that_has_joined_exits_as_the_job(state: SessionState) -> None:
    state.runner_ended(DONE, 7)
    assert state.code == 7


def test_the_end_waits_for_commands_and_for_what_is_sent(do: Recorder, state: SessionState) -> None:
    busy = DONE._replace(services=True)
    assert do.after(state.runner_ended, busy, None) == [("clear",), ("close_services",)]
    assert do.after(state.cleared, DONE._replace(unsent=1)) == [("clear",)]
    assert (state.phase, state.leaves) == (SessionPhase.CLEARING, True)
    assert do.after(state.cleared, DONE) == LEAVES


def test_what_is_cleared_while_it_serves_ends_nothing(do: Recorder, state: SessionState) -> None:
    assert do.after(state.cleared, DONE) == []


def test_an_end_kills_what_runs_first_as_the_guard_may_be_dead(
    do: Recorder, state: SessionState
) -> None:
    assert do.after(state.runner_ended, ACTIVE, 7) == [("stop_run", signal.SIGKILL, 0.0)]
    assert (state.phase, state.code) == (SessionPhase.DISMISSED, 7)
    state.signal_heard(ACTIVE, TERM)
    state.signal_came(ACTIVE, TERM, delivered=False)
    state.guard_died(ACTIVE)
    state.runner_lost(ACTIVE, "why")
    assert do.after(state.runner_ended, ACTIVE, 8) == [], "it is killed already"
    assert do.after(state.run_ended, DONE) == LEAVES
    assert state.code == 7


def test_a_lost_runner_has_the_workers_stopped_first(do: Recorder, state: SessionState) -> None:
    gone = [("stop_without_runner", "lost contact with the runner: why")]
    assert do.after(state.runner_lost, ACTIVE._replace(open=False), "why") == gone
    assert (state.phase, state.code) == (SessionPhase.LEAVING, LOST)
    assert do.after(state.run_ended, DONE._replace(open=False)) == [("tell_left",), *LEAVES]


@pytest.mark.parametrize(("now", "code"), [(IDLE, LOST), (DONE, 0)])
def test_a_runner_that_is_lost_after_a_run_has_done_no_harm(
    do: Recorder, state: SessionState, now: SessionSnapshot, code: int
) -> None:
    assert do.after(state.runner_lost, now, "why") == LEAVES
    assert state.code == code


def test_a_runner_that_is_lost_ends_commands_too(do: Recorder, state: SessionState) -> None:
    ends = [("close_services",), ("clear",), ("close_services",)]
    assert do.after(state.runner_lost, DONE._replace(services=True), "why") == ends
    assert do.after(state.cleared, DONE._replace(open=False)) == LEAVES


def test_a_runner_that_is_lost_at_the_end_takes_nothing_more(
    do: Recorder, state: SessionState
) -> None:
    do.after(state.runner_ended, DONE._replace(unsent=1), None)
    assert do.after(state.runner_lost, DONE._replace(open=False), "why") == LEAVES
    assert state.code == 0


def test_a_signal_stops_the_workers_with_their_grace(do: Recorder, state: SessionState) -> None:
    done = do.after(state.signal_came, ACTIVE, TERM, delivered=False)
    assert done == [("tell_why", WHY, TERM), ("stop_run", TERM, 9.0, False)]
    assert state.phase is SessionPhase.LEAVING
    assert do.after(state.run_ended, DONE) == []


def test_a_held_node_leaves_after_a_signal(do: Recorder, state: SessionState) -> None:
    do.after(state.signal_came, ACTIVE._replace(held=True), TERM, delivered=False)
    assert do.after(state.run_ended, DONE._replace(held=True)) == LEAVES


def test_a_signal_that_workers_have_got_is_not_passed_on(do: Recorder, state: SessionState) -> None:
    done = do.after(state.signal_came, ACTIVE, TERM, delivered=True)
    assert done[-1] == ("stop_run", TERM, 9.0, True)


@pytest.mark.parametrize(("now", "told"), [(IDLE, []), (DONE, [("tell_why", WHY, TERM)])])
def test_a_signal_without_workers_is_the_end(
    do: Recorder, state: SessionState, now: SessionSnapshot, told: list[object]
) -> None:
    assert do.after(state.signal_came, now, TERM, delivered=False) == [*told, *LEAVES]


@pytest.mark.parametrize(("by_engine", "grace"), [(False, 0), (True, 9.0)])
def test_without_its_guard_it_leaves_at_once(
    do: Recorder, state: SessionState, by_engine: bool, grace: float
) -> None:
    """But an engine that ends kills all guards: the workers keep their grace."""
    why = "its guard was killed"
    done = do.after(state.guard_died, ACTIVE._replace(by_engine=by_engine))
    assert done == [("tell_why", why, signal.SIGKILL), ("stop_run", TERM, grace, why)]
    assert state.code == LOST


def test_what_a_run_leaves_is_spared(do: Recorder, state: SessionState) -> None:
    left = DONE._replace(stuck={5})
    assert do.after(state.run_ended, left._replace(background=True)) == [("let_stay",)]
    assert do.after(state.run_ended, left) == [("spare", {5})]
    assert state.phase is SessionPhase.SERVING


def test_a_signal_is_told_of_at_once_where_workers_end_and_only_once(
    do: Recorder, state: SessionState
) -> None:
    assert do.after(state.signal_heard, ACTIVE, TERM) == [("tell_why", WHY, TERM)]
    assert do.after(state.signal_heard, ACTIVE, TERM) == []
    phases = [state.phase]  # it is not known yet whether the workers have got it
    done = do.after(state.signal_came, ACTIVE, TERM, delivered=False)
    assert done == [("stop_run", TERM, 9.0, False)]
    assert [*phases, state.phase] == [SessionPhase.SERVING, SessionPhase.LEAVING]


def test_a_signal_that_was_told_of_ends_the_session_after_the_run(
    do: Recorder, state: SessionState
) -> None:
    do.after(state.signal_heard, ACTIVE, TERM)
    assert do.after(state.signal_came, DONE, TERM, delivered=False) == LEAVES


@pytest.mark.parametrize("now", [IDLE, DONE])
def test_a_signal_without_a_run_is_nobodys_yet(
    do: Recorder, state: SessionState, now: SessionSnapshot
) -> None:
    assert do.after(state.signal_heard, now, TERM) == []
