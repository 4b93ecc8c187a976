"""A run without restarts: the first failure or loss ends it."""

from __future__ import annotations

from typing import Any

from dsrun.launcher.control.messages import WorkerExit
from dsrun.launcher.head.run.record import JobRecord
from dsrun.launcher.head.run.restart_policy import GiveUp, NoRestarts

from ...support.recorder import Recorder
from ...support.run_nodes import plan_of, sent_nodes

NODE = sent_nodes(plan_of(1))[0]


class AnyRun(Recorder):
    """A run of one node; what is asked of it is recorded.

    Attributes:
        record: of the run.
        now: the time.
    """

    def __init__(self) -> None:
        super().__init__()
        self.record, self.now = JobRecord("job", 0.0), 0.0

    def decide(self, call: Any, *args: object) -> None:
        """Make a call at once."""
        call(*args)


def without_restarts() -> tuple[NoRestarts, AnyRun]:
    """Return the policy of a run, and the run."""
    run: Any = AnyRun()
    return NoRestarts(run), run


def test_a_failure_ends_the_run_and_a_loss_is_not_survived() -> None:
    policy, run = without_restarts()
    assert run.after(policy.on_failure, NODE, WorkerExit(0, 7, 1, False, 0.0)) == [("stop", 15)]
    assert run.record.has_failures
    assert (policy.survives(NODE), policy.outlives_engine()) == (False, False)


def test_what_cannot_be_restarted_is_given_up() -> None:
    policy, run = without_restarts()
    found = GiveUp("rank 0 hangs", 77, "stopped", "")
    words = "rank 0 hangs: stopping the job"
    assert run.after(policy.restart, "rank 0 hangs", found) == [("warn", words), ("stop", 15)]


def test_the_run_ends_when_all_nodes_are_done() -> None:
    policy, run = without_restarts()
    assert run.after(policy.on_done, NODE) == [("finish_if_over",)]


def test_all_nodes_are_needed_and_the_plan_says_how_many_workers() -> None:
    policy, _ = without_restarts()
    assert (policy.least, dict(policy.handlers), policy.world_size(8)) == (None, {}, 8)
