"""Signals for a run, and its stop."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import pytest

from dsrun.launcher.common.errors import UsageError
from dsrun.launcher.head.job.control import send, stop
from dsrun.launcher.head.run.run_view import RunPhase

from ...support.fake_fleet import FakeFleet

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def fleet() -> Iterator[FakeFleet]:
    """A fleet that a test plays."""
    one = FakeFleet("n0", "n1")
    one.connect()
    yield one
    one.close()


def test_signals_are_passed_on_or_end_the_run(fleet: FakeFleet) -> None:
    run = fleet.start()
    send(run.view, run.handle, int(signal.SIGUSR1))
    assert fleet.kinds("n1") == ["SIGNAL"]
    send(run.view, run.handle, int(signal.SIGTERM))
    assert (run.state.phase, run.state.record.stop_signal) == (RunPhase.STOPPING, signal.SIGTERM)
    assert fleet.news("n1") == [["STOP", {"number": 15, "grace": 30.0}]]


def test_sigkill_leaves_no_grace(fleet: FakeFleet) -> None:
    run = fleet.start()
    send(run.view, run.handle, int(signal.SIGKILL))
    assert fleet.news("n0") == [["STOP", {"number": 9, "grace": 0.0}]]
    assert run.state.record.stop_signal == signal.SIGKILL


@pytest.mark.parametrize(("grace", "expected"), [(None, 30.0), (2, 2.0), (0.5, 0.5)])
def test_stop_with_a_grace(grace: float | None, expected: float, fleet: FakeFleet) -> None:
    run = fleet.start()
    stop(run.view, run.handle, grace)
    assert fleet.news("n0") == [["STOP", {"number": 15, "grace": expected}]]


def test_a_run_that_has_not_started_ends(fleet: FakeFleet) -> None:
    run = fleet.run()
    send(run.view, run.handle, int(signal.SIGUSR1))
    assert run.state.phase is RunPhase.STARTING
    stop(run.view, run.handle, 5.0)
    assert run.state.ending
    assert run.state.record.stop_signal == signal.SIGTERM


@pytest.mark.parametrize("number", [0, 999, True, "9", None])
def test_what_is_no_signal(number: object, fleet: FakeFleet) -> None:
    run = fleet.start()
    with pytest.raises(UsageError, match="no such signal"):
        send(run.view, run.handle, number)
    assert run.state.phase is RunPhase.RUNNING


@pytest.mark.parametrize("grace", [-1, "5", True, float("nan"), [], 1e12])
def test_what_is_no_grace(grace: object, fleet: FakeFleet) -> None:
    run = fleet.start()
    with pytest.raises(UsageError, match="grace: expected seconds"):
        stop(run.view, run.handle, grace)
    assert run.state.phase is RunPhase.RUNNING
