"""How the actions of a run are carried out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from dsrun.launcher.head.run import run_start
from dsrun.launcher.head.run.run import RunEffects, RunOverrides
from dsrun.launcher.head.run.run_state import RunState
from dsrun.launcher.head.run.startup import AllReady

from ...support.elastic_run import started
from ...support.recorder import Recorder
from ...support.run_nodes import plan_of, sent_nodes

if TYPE_CHECKING:
    from ...support.elastic_run import FleetOf

READY = AllReady(plan_of(2), "n0", 29500)


def effects(owner: RunOverrides) -> tuple[RunEffects, Any]:
    """Return the actions of a run, and what records all that they use."""
    world: Any = Recorder()
    return RunEffects(world, world.console, owner), world


def test_workers_start_at_once_unless_whoever_has_the_run_starts_them() -> None:
    made, world = effects(RunOverrides())
    assert world.after(made.ready, READY) == [("handle", run_start.start, READY)]
    told: list[AllReady] = []
    made, world = effects(RunOverrides(on_ready=told.append))
    assert world.after(made.ready, READY) == []
    assert told == [READY]


def test_a_node_that_is_not_reached_is_told_to_whoever_has_the_run() -> None:
    (node,) = sent_nodes(plan_of(1))
    told: list[object] = []
    for owner in (RunOverrides(), RunOverrides(on_unreached=told.append)):
        made, world = effects(owner)
        assert world.after(made.unreached, node) == []
    assert told == [node]


@pytest.mark.parametrize("owned", [False, True])
def test_services_are_closed_once_and_before_the_end(owned: bool) -> None:
    closed: list[str] = []
    made, world = effects(RunOverrides(on_over=lambda: closed.append("over") if owned else None))
    made.close_too(lambda: closed.append("watch"))
    made.close_services()
    made.finish()
    assert closed == ["watch", "over"][: 1 + owned]
    made, world = effects(RunOverrides())
    assert world.after(made.finish) == [("gates.close",), ("fleet.loop.stop",)]


def test_what_is_to_be_closed_with_a_run_is_closed_once(fleet_of: FleetOf) -> None:
    job = started(fleet_of("n0"))
    closed: list[str] = []
    job.run.effects.close_too(lambda: closed.append("watch"))
    job.run.handle(RunState.stop, 15)
    job.run.handle(RunState.stop, 15)
    assert closed == ["watch"]
