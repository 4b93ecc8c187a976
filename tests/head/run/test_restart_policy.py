"""A run without restarts: the first failure or loss ends it."""

from __future__ import annotations

from dsrun.launcher.control.messages import Exit
from dsrun.launcher.head.run.restart_policy import NoRestarts

from ...support.run_nodes import plan_of, sent_nodes


def test_a_failure_ends_the_run_and_a_loss_is_not_survived() -> None:
    policy, (node, _) = NoRestarts(), sent_nodes(plan_of(2))
    assert not policy.on_failure(node, Exit(0, 7, 1, False, 0.0))
    assert (policy.survives(node), policy.outlives_engine()) == (False, False)


def test_the_run_ends_when_all_nodes_are_done() -> None:
    node, _ = sent_nodes(plan_of(2))
    assert not NoRestarts().on_done(node)


def test_all_nodes_are_needed_and_the_plan_says_how_many_workers() -> None:
    policy = NoRestarts()
    assert (policy.least, dict(policy.handlers), policy.world_size(8)) == (None, {}, 8)
