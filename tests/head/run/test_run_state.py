"""The state of a run without a fleet, a loop or a console: events in, effects out."""

from __future__ import annotations

import signal
from typing import Any

import pytest

from dsrun.launcher.control import frames, messages
from dsrun.launcher.head.fleet.events import NodeConnected, NodeSent
from dsrun.launcher.head.run import decisions, effects
from dsrun.launcher.head.run.phase import RunPhase
from dsrun.launcher.head.run.restart_policy import NoRestarts
from dsrun.launcher.head.run.run_state import LAST_MARGIN, RunState
from dsrun.launcher.specs.job import JobSpec
from dsrun.launcher.specs.policies import CheckPolicy

from ...support.run_nodes import nobody, plan_of, sent_nodes


class Played:
    """A run of two nodes, at a time that a test sets."""

    def __init__(self) -> None:
        plan = plan_of(2)
        spec = JobSpec("job", plan, "/work", checks=CheckPolicy(quick=False))
        self.nodes = list(sent_nodes(plan))
        nodes: list[Any] = self.nodes
        self.state = RunState(spec, nodes, NoRestarts, nobody, 0.0, 0.0)
        self.now = 0.0

    def step(self, event: object) -> list[Any]:
        """Return what is to be done, but for lines that replace themselves."""
        found = self.state.step(self.now, self.now, event)
        return [one for one in found if not isinstance(one, effects.Status)]

    def says(self, number: int, frame: bytes) -> list[Any]:
        ((kind, body),) = frames.Decoder().feed(frame)
        return self.step(NodeSent(self.nodes[number].connection, kind, body))


def test_a_node_that_connects_is_to_get_its_job() -> None:
    run = Played()
    assert run.step(decisions.Begin()) == [effects.Ask(node) for node in run.nodes]
    assert run.step(NodeConnected(run.nodes[1].connection)) == [effects.Ask(run.nodes[1])]
    assert run.state.phase is RunPhase.STARTING


def test_a_step_does_nothing_itself() -> None:
    run = Played()
    run.step(decisions.Begin())
    (sent, *_) = run.step(decisions.StopAll(signal.SIGTERM, 3.0))
    assert isinstance(sent, effects.CloseServices)
    assert [node.sink.sent for node in run.nodes] == [[], []]


def test_what_is_decided_in_a_step_is_part_of_it() -> None:
    run = Played()
    run.step(decisions.Begin())
    run.state.do(decisions.Refuse(ValueError("no")))  # type: ignore[arg-type]
    assert run.step(decisions.TimePassed())[-1] == effects.Over()
    assert run.state.phase is RunPhase.OVER


def test_what_a_decision_leads_to_comes_before_the_decisions_after_it() -> None:
    """No node is told to leave a round of which it has not been told."""
    run = Played()
    run.step(decisions.Begin())
    start = decisions.StartRun(run.state.plan, "n0", 29500)
    run.state.do(start)
    run.state.do(effects.Log("after it"))
    *before, last = run.step(decisions.TimePassed())
    assert effects.Send in {type(one) for one in before}
    assert last == effects.Log("after it")


def test_time_passes_only_in_steps() -> None:
    run = Played()
    run.step(decisions.Begin())
    run.step(decisions.StartRun(run.state.plan, "n0", 29500))
    run.step(decisions.StopAll(signal.SIGTERM, 3.0))
    run.now = 2.9 + LAST_MARGIN
    run.step(decisions.TimePassed())
    assert run.state.stopping
    assert not run.state.ending
    run.now = 3.1 + LAST_MARGIN
    assert run.state.due is not None
    run.step(decisions.TimePassed())
    assert [node.reason for node in run.nodes] == ["it did not report the end of its workers"] * 2
    assert run.state.phase is RunPhase.OVER


def test_a_frame_that_is_not_expected_changes_nothing() -> None:
    run = Played()
    run.step(decisions.Begin())
    with pytest.raises(frames.BadFrame, match=r"^the job has not started$"):
        run.says(0, messages.pack(frames.STARTED, messages.WorkersStarted((0,), (7,))))
    assert run.state.workers.running == []
