"""Histories of a node's rounds: what happens, and what is done of it."""

from __future__ import annotations

import signal
from typing import Any

import pytest

from dsrun.launcher.control import frames, round_messages
from dsrun.launcher.control.messages import Start
from dsrun.launcher.control.round_messages import AgentFailure
from dsrun.launcher.features.elastic.node_rounds_state import RoundsPhase, RoundsState

from ...support.recorder import Recorder

TERM = signal.SIGTERM
FIRST = Start(2, (0, 1), 4, 1, 2, "h", 77, 1, generation=1)
SECOND = FIRST._replace(generation=2, first_rank=0)
STOP = ("stop_workers", TERM, 9.0)
ENDS = [("agent.ended", local, -TERM) for local in (0, 1)]


@pytest.fixture
def do() -> Recorder:
    return Recorder()


def state(do: Recorder, template: Start | None = None) -> RoundsState:
    return RoundsState(do, 2, 9.0, template)


def requested(do: Recorder, one: RoundsState, start: Start = FIRST) -> list[Any]:
    """What is done once the workers of a round are requested."""
    one.agent_joined(1, 2)
    do.after(one.round_formed, start)
    return do.after(one.workers_requested, ())


def running(do: Recorder) -> RoundsState:
    """Rounds with workers that run."""
    one = state(do)
    requested(do, one)
    assert one.phase is RoundsPhase.RUNNING
    return one


def test_a_round_from_the_join_to_its_workers(do: Recorder) -> None:
    one = state(do)
    join = ("send", frames.READY, round_messages.Join(1, 2))
    assert do.after(one.agent_joined, 1, 2) == [join]
    assert do.after(one.round_formed, FIRST) == [("agent.form", FIRST)]
    assert do.after(one.workers_requested, ()) == [("start_workers", FIRST)]
    assert do.after(one.worker_exited, 3, 7) == [("agent.ended", 1, 7)]
    assert do.after(one.stop_requested, TERM) == [STOP]
    assert do.after(one.workers_gone) == [("agent.workers_gone",)]


def test_sigkill_has_no_grace(do: Recorder) -> None:
    done = do.after(running(do).stop_requested, signal.SIGKILL)
    assert done == [("stop_workers", signal.SIGKILL, 0.0)]


def test_a_round_that_was_not_joined_is_not_taken(do: Recorder) -> None:
    one = state(do)
    assert do.after(one.round_formed, FIRST) == []
    assert do.after(one.workers_requested, ()) == []
    assert one.phase is RoundsPhase.JOINING


def test_workers_wait_for_the_end_of_those_before(do: Recorder) -> None:
    one = running(do)
    assert requested(do, one, SECOND) == []
    assert do.after(one.worker_exited, 3, 7) == []
    assert do.after(one.workers_gone) == [("agent.workers_gone",), ("start_workers", SECOND)]


def test_workers_that_still_wait_end_at_once(do: Recorder) -> None:
    one = running(do)
    requested(do, one, SECOND)
    assert do.after(one.stop_requested, TERM) == [STOP, *ENDS]
    assert do.after(one.workers_gone) == [("agent.workers_gone",)]


def test_workers_that_were_not_started_end_for_the_agent(do: Recorder) -> None:
    assert do.after(running(do).not_started, TERM) == [*ENDS, ("close_notice",)]


def test_a_notice_is_for_workers_that_run(do: Recorder) -> None:
    assert do.after(state(do).change_near) == []
    one = running(do)
    assert do.after(one.change_near) == [("give_notice",)]
    assert do.after(one.change_wanted) == [("agent.change",)]


def test_a_round_that_is_finished_is_told_once_it_runs(do: Recorder) -> None:
    assert do.after(state(do).round_finished) == []
    done = do.after(running(do).round_finished)
    assert done == [("send", frames.FINISHED, round_messages.Finished(1))]


def test_rounds_of_torch_are_counted_here_and_their_ranks_told(do: Recorder) -> None:
    one = state(do, FIRST)
    numbers = {"RANK": "2", "WORLD_SIZE": "4", "GROUP_RANK": "1", "GROUP_WORLD_SIZE": "2"}
    torch = {"TORCHELASTIC_RESTART_COUNT": "0", "TORCHELASTIC_MAX_RESTARTS": "3"}
    environments = [{**numbers, **torch, "MASTER_ADDR": "h", "MASTER_PORT": "1"}] * 2
    ranks, started = do.after(one.workers_requested, environments)
    assert ranks[:2] == ("send", frames.RANKS)
    assert (started[0], started[1].generation) == ("start_workers", 1)
    assert do.after(one.round_finished) == []


def test_the_end_of_the_agent_is_the_last_that_happens(do: Recorder) -> None:
    one, failure = running(do), AgentFailure("no port")
    done = do.after(one.agent_ended, failure)
    assert done == [("send", frames.AGENT_FAILED, failure), ("finish", "no port")]
    assert one.phase is RoundsPhase.OVER
    one.round_formed(SECOND)
    one.change_wanted()
    one.change_near()
    one.agent_joined(1, 2)
    one.workers_requested(())
    one.stop_requested(TERM)
    one.round_finished()
    one.agent_ended(failure)
    one.worker_exited(3, 7)
    one.not_started(TERM)
    assert do.after(one.workers_gone) == []


def test_an_agent_that_ends_well_has_no_reason(do: Recorder) -> None:
    assert do.after(running(do).agent_ended, None) == [("finish", "")]
