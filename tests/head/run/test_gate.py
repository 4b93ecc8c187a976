"""Gates of a run: the order in which nodes pass them, and the ends of runs that wait at one."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from dsrun.launcher.control import frames
from dsrun.launcher.features.elastic.runner_policy import RunnerRounds
from dsrun.launcher.head.run import run_signals
from dsrun.launcher.head.run.gate import Gates, GateStage
from dsrun.launcher.specs.policies import ElasticPolicy

from ...support.fake_fleet import refusal
from ...support.fake_gates import FakeGate
from ...support.run_nodes import plan_of, sent_nodes

if TYPE_CHECKING:
    from collections.abc import Callable

    from dsrun.launcher.head.run.run_node import RunNode

    from ...support.fake_fleet import FakeFleet

    FleetOf = Callable[..., FakeFleet]

NODES = list(sent_nodes(plan_of(2)))


def row(*stages: GateStage) -> tuple[list[FakeGate], Gates]:
    """Gates at these stages, in this order."""
    made = [FakeGate() for _ in stages]
    return made, Gates([(at, partial(_same, one)) for at, one in zip(stages, made, strict=True)])


def _same(gate: FakeGate) -> FakeGate:
    return gate


def test_nodes_pass_one_gate_of_a_stage_after_the_other() -> None:
    (first, other, second), gates = row(GateStage.NODE, GateStage.JOB, GateStage.NODE)
    done: list[Any] = []
    gates.check((GateStage.NODE,), NODES, lambda *verdict: done.append(verdict))
    assert (first.held, second.held) == ([tuple(NODES)], [])
    first.passes()
    assert (second.held, other.held, done) == ([tuple(NODES)], [], [])
    second.passes()
    assert done == [({}, ())]


def test_no_other_gate_is_asked_of_nodes_that_one_refuses() -> None:
    (first, second), gates = row(GateStage.MASTER, GateStage.START)
    done: list[Any] = []
    gates.check((GateStage.MASTER, GateStage.START), NODES, lambda *verdict: done.append(verdict))
    first.passes(refused={NODES[0]: "no"}, lines=["n0: no"])
    assert (second.held, done) == ([], [({NODES[0]: "no"}, ["n0: no"])])


def test_without_gates_nodes_go_on_at_once() -> None:
    done: list[Any] = []
    Gates().check((GateStage.JOB,), NODES, lambda *verdict: done.append(verdict))
    assert done == [({}, ())]


def test_a_gate_is_made_when_a_node_first_reaches_it() -> None:
    made: list[FakeGate] = []

    def make() -> FakeGate:
        made.append(FakeGate())
        return made[-1]

    gates = Gates([(GateStage.START, make)])
    gates.close()
    assert made == []
    assert gates.stages == {GateStage.START}
    for _ in range(2):
        gates.check((GateStage.START,), NODES, lambda *_verdict: None)
    assert len(made) == 1
    gates.close()
    assert made[0].closed == 1


def test_a_frame_goes_to_the_gate_that_wants_it() -> None:
    (_, gate), gates = row(GateStage.NODE, GateStage.START)
    got: list[Any] = []
    gate.handlers = {frames.REACHED: lambda *frame: got.append(frame)}
    with pytest.raises(frames.BadFrame, match="not expected in this job"):
        gates.on_frame(NODES[0], frames.REACHED, b"early")
    gates.open(GateStage.START, GateStage.NODE)
    gates.on_frame(NODES[0], frames.REACHED, b"x")
    assert got == [(NODES[0], b"x")]
    with pytest.raises(frames.BadFrame, match="not expected in this job"):
        gates.on_frame(NODES[0], frames.RANKS, b"")


# -- in a run -------------------------------------------------------------------------------------


@pytest.mark.parametrize("stage", [GateStage.START, GateStage.MASTER])
def test_a_start_waits_at_a_gate(stage: GateStage, fleet_of: FleetOf) -> None:
    job, gate = fleet_of("n0", "n1"), FakeGate()
    run = job.run(gates=gate.at(stage))
    job.ready()
    assert gate.held == [tuple(run.state.nodes)]
    assert not run.state.started
    gate.passes()
    job.step()
    for node in job.nodes()[1:]:
        if node.got(frames.PROBE)():
            node.reaches()
    job.step()
    assert run.state.started


@pytest.mark.parametrize(
    "stage", [GateStage.JOB, GateStage.NODE, GateStage.START, GateStage.MASTER]
)
def test_a_node_that_a_gate_refuses_is_named(stage: GateStage, fleet_of: FleetOf) -> None:
    job, gate = fleet_of("n0"), FakeGate()
    run = job.run(gates=gate.at(stage))
    if stage is not GateStage.JOB:
        job.ready()
    gate.passes(refused={run.state.nodes[0]: "it rains there"})
    job.step()
    assert refusal(run) == ["n0: it rains there"]


def test_a_start_goes_on_without_the_nodes_that_a_gate_refuses(fleet_of: FleetOf) -> None:
    job, gate = fleet_of("n0", "n1", "n2"), FakeGate()
    limits = ElasticPolicy(2, 3, 0)
    policy = {"elastic": limits, "restarts": partial(RunnerRounds, limits=limits)}
    run = job.run(gates=gate.at(GateStage.START), **policy)
    job.ready()
    nodes: list[RunNode] = run.state.nodes
    gate.passes(refused={nodes[1]: "it rains there"})
    job.step()
    assert job.said("warning") == ["n1: it rains there; starting without it"]
    assert gate.held == [tuple(nodes), (nodes[0], nodes[2])]
    gate.passes(0)
    job.step()
    assert not job.node("n2").got(frames.PROBE)(), "the other nodes are still checked"
    gate.passes()
    job.step()
    assert job.node("n2").got(frames.PROBE)()


def test_gates_are_closed_when_a_run_ends(fleet_of: FleetOf) -> None:
    job, gate = fleet_of("n0", "n1"), FakeGate()
    run = job.run(gates=gate.at(GateStage.NODE))
    job.ready()
    run.handle(run_signals.on_end_signal, 2)
    job.step()
    assert gate.closed
    gate.passes(refused={run.state.nodes[0]: "late"})
    assert (run.state.error, run.state.started) == (None, False)
