"""A run without restarts: the first failure or loss ends it."""

from __future__ import annotations

from typing import Any

from dsrun.launcher.common.loop import Timers
from dsrun.launcher.control.messages import WorkerExit
from dsrun.launcher.head.run.decisions import EndWhenOver, GiveUp, StopAll
from dsrun.launcher.head.run.record import JobRecord
from dsrun.launcher.head.run.restart_policy import Course, NoRestarts
from dsrun.launcher.head.run.workers import Workers
from dsrun.launcher.specs.job import JobSpec

from ...support.run_nodes import nobody, plan_of, sent_nodes


def without_restarts() -> tuple[NoRestarts, Course, list[Any]]:
    """The policy of a run of two nodes, what it knows, and what it decides."""
    plan = plan_of(2)
    decided: list[Any] = []

    def clock() -> float:
        return 0.0

    timers = Timers(clock)
    course = Course(
        spec=JobSpec("job", plan, "/"),
        nodes=sent_nodes(plan),
        record=JobRecord("job", 0.0),
        workers=Workers(clock, timers, decided.append),
        timers=timers,
        clock=clock,
        do=decided.append,
        add=nobody,
        compare=lambda _node, _others: "",
    )
    return NoRestarts(course), course, decided


def test_a_failure_ends_the_run_and_a_loss_is_not_survived() -> None:
    policy, course, decided = without_restarts()
    policy.on_failure(course.nodes[0], WorkerExit(0, 7, 1, False, 0.0))
    assert decided == [StopAll(15)]
    assert course.record.has_failures
    assert (policy.survives(course.nodes[0]), policy.outlives_engine()) == (False, False)


def test_what_cannot_be_restarted_is_given_up() -> None:
    policy, _, decided = without_restarts()
    policy.restart("rank 0 hangs", GiveUp("rank 0 hangs", 77, "stopped", ""))
    assert decided == [GiveUp("rank 0 hangs", 77, "stopped", "")]


def test_the_run_ends_when_all_nodes_are_done() -> None:
    policy, course, decided = without_restarts()
    policy.on_done(course.nodes[0])
    assert decided == [EndWhenOver()]


def test_all_nodes_are_needed_and_the_plan_says_how_many_workers() -> None:
    policy, _, _ = without_restarts()
    assert (policy.least, dict(policy.handlers), policy.world_size(8)) == (None, {}, 8)
