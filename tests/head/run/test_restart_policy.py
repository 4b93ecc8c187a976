"""A run without restarts: the first failure or loss ends it."""

from __future__ import annotations

from dsrun.launcher.control.messages import Exit
from dsrun.launcher.head.run.restart_policy import NoRestarts

from ...support.run_nodes import plan_of, sent_nodes


class FakeRun:
    """A run that notes which failure has ended it."""

    def __init__(self) -> None:
        self.failed: list[tuple[object, Exit]] = []

    def fail(self, node: object, ended: Exit) -> None:
        self.failed.append((node, ended))


def test_a_failure_ends_the_run_and_a_loss_is_not_survived() -> None:
    run, (node, _) = FakeRun(), sent_nodes(plan_of(2))
    policy, ended = NoRestarts(run), Exit(0, 7, 1, False, 0.0)  # type: ignore[arg-type]
    policy.on_failure(node, ended)
    assert run.failed == [(node, ended)]
    assert (policy.survives(node), policy.outlives_engine()) == (False, False)


def test_all_nodes_are_needed_and_the_plan_says_how_many_workers() -> None:
    policy = NoRestarts(FakeRun())  # type: ignore[arg-type]
    assert (policy.least, dict(policy.handlers), policy.world_size(8)) == (None, {}, 8)
