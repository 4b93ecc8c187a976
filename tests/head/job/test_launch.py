"""One run on a fleet of its own: connected, waited for, let go."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from dsrun.launcher.backends.base import Part
from dsrun.launcher.backends.events import SessionEnded
from dsrun.launcher.common.errors import NodeError
from dsrun.launcher.control import frames
from dsrun.launcher.head.job.job import RunnerJob
from dsrun.launcher.head.job.launch import serve
from dsrun.launcher.head.job.one_program import OneProgram

from ...support.fake_nodes import FakeNode, FakeNodes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from ...support.fake_fleet import FakeFleet

    FleetOf = Callable[..., FakeFleet]
    Steps = Iterator[Callable[[], bool]]
    Nodes = Sequence[FakeNode]


def prepared(fleet: FakeFleet, launcher: str = "ssh") -> RunnerJob:
    """A job on a fleet, which has not begun."""
    console: Any = fleet.console
    spec = fleet.spec(plan={"launcher": launcher})
    job = RunnerJob(spec, console, fleet.loop, lambda _ending: None)
    job.attach(OneProgram(spec, fleet.fleet, console))
    return job


def play(
    fleet: FakeFleet,
    history: Callable[[Nodes], Steps],
    launcher: str = "ssh",
    job: RunnerJob | None = None,
) -> tuple[Any, list[FakeNode]]:
    """How a job has ended whose nodes say what a history has them say, and the nodes."""
    fake, job = FakeNodes(history), job or prepared(fleet, launcher)
    try:
        return serve(job, fleet.fleet, [Part(fake, fleet.plan)]), fake.nodes
    finally:
        assert not any(node.open for node in fake.nodes), "nothing is left open"


@pytest.mark.parametrize(("launcher", "worded"), [("ssh", False), ("none", True)])
def test_a_run_is_waited_for_and_its_nodes_are_told_how_it_ended(
    launcher: str, worded: bool, fleet_of: FleetOf
) -> None:
    """In words if they have joined by themselves, and so have a user who reads them."""

    def history(nodes: Nodes) -> Steps:
        (node,) = nodes
        yield node.got(frames.JOB)
        node.hello()
        yield node.got(frames.START)
        node.exits(0, 3)
        yield node.got(frames.STOP)
        node.exits(1, -15, told=True)
        node.done()

    ending, (node,) = play(fleet_of("n0", connect=False), history, launcher)
    assert ending.code == 3
    kind, end = node.frames()[-1]
    assert (kind, end["code"]) == ("END", 3)
    told = "dsrun: rank 0 (n0, local rank 0, pid 4000) exited with code 3"
    assert end["report"].startswith(told) is worded
    assert end["report"].endswith("\n") is worded


def test_what_cannot_start_is_raised_and_nothing_is_left_open(fleet_of: FleetOf) -> None:
    def history(nodes: Nodes) -> Steps:
        nodes[0].hello(problems=("no such folder",))
        yield nodes[0].got(frames.JOB)
        nodes[1].emit(SessionEnded(1, "no route"))

    with pytest.raises(NodeError, match="n1: no route"):
        play(fleet_of("n0", "n1", connect=False), history)


def test_a_run_that_is_abandoned_does_not_wait_for_its_nodes(fleet_of: FleetOf) -> None:
    fleet = fleet_of("n0", connect=False)
    job = prepared(fleet)
    program = job.programs
    assert program is not None

    def history(nodes: Nodes) -> Steps:
        (node,) = nodes
        yield node.got(frames.JOB)
        node.hello()
        yield node.got(frames.START)
        for _ in range(3):
            program.on_end_signal(2)

    ending, (node,) = play(fleet, history, job=job)
    assert ending.code == 130
    assert "END" not in [kind for kind, _ in node.frames()]


def test_a_backend_that_fails_leaves_nothing_open(fleet_of: FleetOf) -> None:
    job = fleet_of("n0", connect=False)
    job.backend.refusal = "no such program: mpirun"
    part = Part(job.backend, job.plan)  # type: ignore[arg-type]
    with pytest.raises(NodeError, match="no such program: mpirun"):
        serve(prepared(job), job.fleet, [part])
    assert job.backend.closed == 1
