"""Histories of a node's rounds as values: what happens, and what is done of it."""

from __future__ import annotations

import json
import signal
from typing import Any

from dsrun.launcher.control import frames
from dsrun.launcher.control.messages import Start
from dsrun.launcher.control.round_messages import AgentFailure
from dsrun.launcher.node.elastic import effects, events
from dsrun.launcher.node.elastic.rounds_state import Phase, RoundsState

FIRST = Start(2, (0, 1), 4, 1, 2, "h", 77, 1, generation=1)
SECOND = FIRST._replace(generation=2, first_rank=0)
STOP = events.StopWorkers(signal.SIGTERM, 9.0)
OWN = events.WorkersRequested(())


def state(template: Start | None = None) -> RoundsState:
    return RoundsState(2, 9.0, template)


def sent(done: list[Any]) -> list[tuple[int, Any]]:
    """The frames among these."""
    all_of_them = b"".join(one.frame for one in done if type(one) is effects.Send)
    return [(kind, json.loads(body)) for kind, body in frames.Decoder().feed(all_of_them)]


def played(one: RoundsState, *happens: object) -> list[Any]:
    """What is done of the last of these."""
    return [one.step(event) for event in happens][-1]


def running(one: RoundsState) -> RoundsState:
    played(one, events.AgentJoined(1, 2), events.RoundFormed(FIRST), OWN)
    assert one.phase is Phase.RUNNING
    return one


def test_a_round_from_the_join_to_its_workers() -> None:
    one = state()
    assert sent(one.step(events.AgentJoined(1, 2))) == [(frames.READY, {"port": 1, "probe": 2})]
    assert one.step(events.RoundFormed(FIRST)) == [effects.FormRound(FIRST)]
    assert one.step(OWN) == [events.StartWorkers(FIRST)]
    assert one.step(events.WorkerExited(3, 7)) == [effects.EndWorker(1, 7)]
    assert one.step(events.StopRequested(signal.SIGTERM)) == [STOP]
    assert one.step(events.WorkersGone()) == [effects.EndWorkers()]


def test_sigkill_has_no_grace() -> None:
    done = running(state()).step(events.StopRequested(signal.SIGKILL))
    assert done == [events.StopWorkers(signal.SIGKILL, 0.0)]


def test_a_round_that_was_not_joined_is_not_taken() -> None:
    one = state()
    assert one.step(events.RoundFormed(FIRST)) == []
    assert one.step(OWN) == []
    assert one.phase is Phase.JOINING


def test_workers_wait_for_the_end_of_those_before() -> None:
    one = running(state())
    one.step(events.AgentJoined(3, 4))
    one.step(events.RoundFormed(SECOND))
    assert one.step(OWN) == []
    assert one.step(events.WorkerExited(3, 7)) == []
    assert one.step(events.WorkersGone()) == [effects.EndWorkers(), events.StartWorkers(SECOND)]


def test_workers_that_still_wait_end_at_once() -> None:
    one = running(state())
    played(one, events.AgentJoined(3, 4), events.RoundFormed(SECOND), OWN)
    ends = [effects.EndWorker(local, -signal.SIGTERM) for local in (0, 1)]
    assert one.step(events.StopRequested(signal.SIGTERM)) == [STOP, *ends]
    assert one.step(events.WorkersGone()) == [effects.EndWorkers()]


def test_workers_that_were_not_started_end_for_the_agent() -> None:
    ends = [effects.EndWorker(local, -signal.SIGTERM) for local in (0, 1)]
    done = running(state()).step(events.NotStarted(signal.SIGTERM))
    assert done == [*ends, effects.EndNotice()]


def test_a_notice_is_for_workers_that_run() -> None:
    one = state()
    assert one.step(events.ChangeNear()) == []
    running(one)
    assert one.step(events.ChangeNear()) == [effects.GiveNotice()]
    assert one.step(events.ChangeWanted()) == [effects.ChangeRound()]


def test_a_round_that_is_finished_is_told_once_it_runs() -> None:
    assert state().step(events.RoundFinished()) == []
    done = running(state()).step(events.RoundFinished())
    assert sent(done) == [(frames.FINISHED, {"generation": 1})]


def test_rounds_of_torch_are_counted_here_and_their_ranks_told() -> None:
    one = state(FIRST)
    numbers = {"RANK": "2", "WORLD_SIZE": "4", "GROUP_RANK": "1", "GROUP_WORLD_SIZE": "2"}
    torch = {"TORCHELASTIC_RESTART_COUNT": "0", "TORCHELASTIC_MAX_RESTARTS": "3"}
    environments = [{**numbers, **torch, "MASTER_ADDR": "h", "MASTER_PORT": "1"}] * 2
    done = one.step(events.WorkersRequested(environments))
    assert [kind for kind, _ in sent(done)] == [frames.RANKS]
    assert type(done[-1]) is events.StartWorkers
    assert done[-1].start.generation == 1
    assert one.step(events.RoundFinished()) == []


def test_the_end_of_the_agent_is_the_last_that_happens() -> None:
    one = running(state())
    done = one.step(events.AgentEnded(AgentFailure("no port")))
    assert sent(done)[0][0] == frames.AGENT_FAILED
    assert done[-1] == events.RoundsEnded("no port")
    assert one.phase is Phase.OVER
    for event in (events.AgentJoined(1, 2), STOP, OWN, events.WorkersGone()):
        assert one.step(event) == []


def test_an_agent_that_ends_well_has_no_reason() -> None:
    assert running(state()).step(events.AgentEnded(None)) == [events.RoundsEnded("")]
