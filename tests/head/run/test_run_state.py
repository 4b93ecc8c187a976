"""The state of a run without a fleet, a loop or a console: events in, actions out."""

from __future__ import annotations

import signal
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from dsrun.launcher.control import frames, messages
from dsrun.launcher.head.fleet.events import NodeConnected, NodeSent
from dsrun.launcher.head.run import fleet_events, run_start
from dsrun.launcher.head.run.restart_policy import NoRestarts
from dsrun.launcher.head.run.run_state import LAST_MARGIN, RunState
from dsrun.launcher.head.run.run_view import RunPhase
from dsrun.launcher.head.run.startup import AllReady
from dsrun.launcher.specs.job import JobSpec
from dsrun.launcher.specs.policies import CheckPolicy

from ...support.recorder import Recorder
from ...support.run_nodes import nobody, plan_of, sent_nodes

if TYPE_CHECKING:
    from collections.abc import Callable


class Played:
    """A run of two nodes, at a time that a test sets.

    Attributes:
        act: records what it has done.
    """

    def __init__(self) -> None:
        plan = plan_of(2)
        spec = JobSpec("job", plan, "/work", checks=CheckPolicy(quick=False))
        self.nodes = list(sent_nodes(plan))
        nodes: list[Any] = self.nodes
        self.act: Any = Recorder()
        vars(self.act)["stages"] = frozenset()
        self.state = RunState(spec, nodes, NoRestarts, self.act, nobody, 0.0, 0.0)
        self.now = 0.0

    def step(self, happened: Callable[..., object], *args: object) -> list[Any]:
        """Return what has been done, but for lines that replace themselves."""
        call = partial(happened, self.state, *args)
        done = self.act.after(self.state.step, self.now, self.now, call)
        return [one for one in done if one[0] != "status"]

    def says(self, number: int, frame: bytes) -> list[Any]:
        ((kind, body),) = frames.Decoder().feed(frame)
        sent = NodeSent(self.nodes[number].connection, kind, body)
        return self.step(fleet_events.on_event, sent)


def ready(run: Played) -> AllReady:
    """All nodes of a run are ready."""
    return AllReady(run.state.plan, "n0", 29500)


def test_a_node_that_connects_is_to_get_its_job() -> None:
    run = Played()
    assert run.step(run_start.send_jobs) == [("ask", node) for node in run.nodes]
    connected = NodeConnected(run.nodes[1].connection)
    assert run.step(fleet_events.on_event, connected) == [("ask", run.nodes[1])]
    assert run.state.phase is RunPhase.STARTING


def test_nothing_is_done_before_a_step_is_over() -> None:
    run = Played()
    run.step(run_start.send_jobs)

    def stop(state: RunState) -> None:
        state.stop(signal.SIGTERM, 3.0)
        assert run.act.calls == []

    (first, *_) = run.step(stop)
    assert first == ("close_services",)
    assert [node.sink.sent for node in run.nodes] == [[], []]


def test_what_is_decided_in_a_step_is_part_of_it_and_the_end_is_the_last() -> None:
    run = Played()
    run.step(run_start.send_jobs)
    run.state.decide(run.state.fail, ValueError("no"))  # type: ignore[arg-type]
    run.state.log("refused")
    assert run.step(fleet_events.time_passed)[-2:] == [("log", "refused", "info"), ("finish",)]
    assert run.state.phase is RunPhase.OVER


def test_what_a_decision_leads_to_comes_before_the_decisions_after_it() -> None:
    """No node is told to leave a round of which it has not been told."""
    run = Played()
    run.step(run_start.send_jobs)
    run.state.decide(run_start.start, run.state, ready(run))
    run.state.log("after it")
    *before, last = run.step(fleet_events.time_passed)
    assert "send" in {name for name, *_ in before}
    assert last == ("log", "after it", "info")


def test_what_was_decided_before_an_error_is_done_all_the_same() -> None:
    run = Played()
    run.step(run_start.send_jobs)

    def fail(state: RunState) -> None:
        state.log("decided")
        raise frames.BadFrame("not expected")

    with pytest.raises(frames.BadFrame, match=r"^not expected$"):
        run.step(fail)
    assert run.act.calls == [("log", "decided", "info")]


def test_no_other_event_runs_timers() -> None:
    """What another node has sent may not be read yet, if this process stood still."""
    run = Played()
    run.step(run_start.send_jobs)
    called = list[float]()
    run.state.timers.call_later(1.0, lambda: called.append(run.now))
    run.now = 2.0
    run.step(RunState.log, "an event")
    assert called == []
    run.step(fleet_events.time_passed)
    assert called == [2.0]


def test_time_passes_only_in_steps() -> None:
    run = Played()
    run.step(run_start.send_jobs)
    run.step(run_start.start, ready(run))
    run.step(RunState.stop, signal.SIGTERM, 3.0)
    run.now = 2.9 + LAST_MARGIN
    run.step(fleet_events.time_passed)
    assert run.state.stopping
    assert not run.state.ending
    run.now = 3.1 + LAST_MARGIN
    assert run.state.due is not None
    run.step(fleet_events.time_passed)
    assert [node.reason for node in run.nodes] == ["it did not report the end of its workers"] * 2
    assert run.state.phase is RunPhase.OVER


def test_a_frame_that_is_not_expected_changes_nothing() -> None:
    run = Played()
    run.step(run_start.send_jobs)
    with pytest.raises(frames.BadFrame, match=r"^the job has not started$"):
        run.says(0, messages.pack(frames.STARTED, messages.WorkersStarted((0,), (7,))))
    assert run.state.workers.running == []
