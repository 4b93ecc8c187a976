"""What follows from a hang or a broken rule."""

from __future__ import annotations

from typing import Any

import pytest

from dsrun.launcher.common.errors import NO_PROGRESS
from dsrun.launcher.features.watch.runner_alert_action import STOPPED, AlertAction
from dsrun.launcher.head.run.events import Alarm
from dsrun.launcher.head.run.restart_policy import GiveUp, restart, stop_for

WHY = "no line matched 'step'"
END = GiveUp(WHY, NO_PROGRESS, STOPPED, "sign")
IN_VAIN = END._replace(reason=f"{WHY}; it cannot be restarted again")


def done(then: str, *, runs: bool = True) -> list[object]:
    """Return what is done for a finding, in this order."""
    seen: list[object] = []

    def record(*call: Any) -> None:
        seen.append(call)

    tell: Any = record
    action = AlertAction(lambda: runs, seen.append, seen.append, tell)
    action.perform("rule", then, WHY, "sign")
    return seen


@pytest.mark.parametrize(
    ("then", "follows"),
    [
        ("report", WHY),
        ("stop", (stop_for, END)),
        ("restart", (restart, WHY, IN_VAIN)),
    ],
)
def test_observers_are_told_and_the_action_follows(then: str, follows: object) -> None:
    assert done(then) == [Alarm("rule", then, WHY), follows]


@pytest.mark.parametrize("then", ["report", "stop", "restart"])
def test_nothing_follows_for_a_job_that_does_not_run(then: str) -> None:
    assert done(then, runs=False) == []
