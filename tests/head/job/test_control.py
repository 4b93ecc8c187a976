"""Signals and the stop that a program asks for, checked for all jobs."""

from __future__ import annotations

import signal
from typing import Any, cast

import pytest

from dsrun.launcher.common.errors import UsageError
from dsrun.launcher.head.job.control import send, stop


class Recorder:
    """A job that keeps what it is told."""

    end_signals = ("SIGINT", "SIGTERM")

    def __init__(self) -> None:
        self.told: list[tuple[object, ...]] = []

    def __getattr__(self, name: str) -> Any:
        return lambda *values: self.told.append((name, *values))


def told(act: Any, value: object) -> list[tuple[object, ...]]:
    """What a job is told."""
    job = Recorder()
    act(cast("Any", job), value)
    return job.told


@pytest.mark.parametrize(
    ("number", "expected"),
    [
        (signal.SIGUSR1, ("signal_ranks", 10)),
        (signal.SIGHUP, ("signal_ranks", 1)),
        (signal.SIGTERM, ("on_end_signal", 15)),
        (signal.SIGKILL, ("stop", 9, 0.0)),
    ],
)
def test_a_signal_is_passed_on_or_ends_the_job(number: int, expected: tuple[object, ...]) -> None:
    assert told(send, int(number)) == [expected]


@pytest.mark.parametrize("number", [0, 999, True, "9", None])
def test_what_is_no_signal(number: object) -> None:
    with pytest.raises(UsageError, match="no such signal"):
        told(send, number)


@pytest.mark.parametrize("grace", [None, 2, 0.5, 0])
def test_stop_with_a_grace(grace: float | None) -> None:
    assert told(stop, grace) == [("stop", 15, grace)]


@pytest.mark.parametrize("grace", [-1, "5", True, float("nan"), [], 1e12])
def test_what_is_no_grace(grace: object) -> None:
    with pytest.raises(UsageError, match="grace: expected seconds"):
        told(stop, grace)
