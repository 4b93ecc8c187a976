"""What follows from a hang or a broken rule."""

from __future__ import annotations

import pytest

from dsrun.launcher.head.run.events import Alarm
from dsrun.launcher.head.watch.alert_action import AlertAction

WHY = "no line matched 'step'"
STOPS = "stopping the job"
IN_VAIN = f"{WHY}; it cannot be restarted again"


def done(then: str, *, runs: bool = True, restarts: bool = True) -> list[object]:
    """Return what is done for a finding, in this order."""
    seen: list[object] = []

    def restart(why: str) -> bool:
        seen.append(("restart", why))
        return restarts

    def give_up(why: str, sign: str) -> None:
        seen.append(("give up", why, sign))

    action = AlertAction(lambda: runs, seen.append, seen.append, restart, give_up)
    action.perform("rule", then, WHY, "sign")
    return seen


@pytest.mark.parametrize(
    ("then", "restarts", "more"),
    [
        ("report", True, [WHY]),
        ("stop", True, [f"{WHY}: {STOPS}", ("give up", WHY, "sign")]),
        ("restart", True, [("restart", WHY)]),
        (
            "restart",
            False,
            [("restart", WHY), f"{IN_VAIN}: {STOPS}", ("give up", IN_VAIN, "sign")],
        ),
    ],
)
def test_observers_are_told_and_the_action_follows(
    then: str, restarts: bool, more: list[object]
) -> None:
    assert done(then, restarts=restarts) == [Alarm("rule", then, WHY), *more]


@pytest.mark.parametrize("then", ["report", "stop", "restart"])
def test_nothing_follows_for_a_job_that_does_not_run(then: str) -> None:
    assert done(then, runs=False) == []
