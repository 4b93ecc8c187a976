"""The one program of a job, as those see it who stop it, or who are told of its end."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING, cast

import pytest

from dsrun.launcher.common.errors import UsageError
from dsrun.launcher.head.job.one_program import OneProgram
from dsrun.launcher.head.run.run_view import RunPhase

from ...support.fake_fleet import FakeFleet

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dsrun.launcher.head.output.console import Console
    from dsrun.launcher.head.run.run_view import ObservedRun


@pytest.fixture
def fleet() -> Iterator[FakeFleet]:
    """A fleet that a test plays."""
    one = FakeFleet("n0", "n1")
    one.connect()
    yield one
    one.close()


def begun(fleet: FakeFleet) -> OneProgram:
    """A program whose nodes get ready."""
    program = OneProgram(fleet.spec(), fleet.fleet, cast("Console", fleet.console))
    program.start()
    fleet.step()
    return program


def started(fleet: FakeFleet) -> OneProgram:
    """A program whose workers run."""
    program = begun(fleet)
    fleet.begin_workers(program.view())
    return program


def test_a_grace_of_none_is_its_own(fleet: FakeFleet) -> None:
    started(fleet).stop(signal.SIGTERM, None)
    assert fleet.news("n0") == [["STOP", {"number": 15, "grace": 30.0}]]


def test_a_stop_with_a_grace_is_recorded_as_a_signal(fleet: FakeFleet) -> None:
    program = started(fleet)
    program.stop(signal.SIGTERM, 0.5)
    assert fleet.news("n0") == [["STOP", {"number": 15, "grace": 0.5}]]
    assert program.view().record.stop_signal == signal.SIGTERM


def test_it_ends_when_it_is_stopped_before_it_started(fleet: FakeFleet) -> None:
    program = begun(fleet)
    assert (program.started, program.signal_ranks(signal.SIGUSR1)) == (False, 0)
    program.stop(signal.SIGTERM, 5.0)
    assert program.ending
    assert program.make_ending().code == 128 + signal.SIGTERM


def test_a_signal_for_all_ranks(fleet: FakeFleet) -> None:
    program = started(fleet)
    assert program.signal_ranks(signal.SIGUSR1) == 4
    assert fleet.kinds("n1") == ["SIGNAL"]


def test_an_error_before_the_start_is_its_refusal(fleet: FakeFleet) -> None:
    program = begun(fleet)
    program.fail(error := UsageError("no such folder"))
    assert program.refusal is error is program.make_ending().error
    assert program.release_nodes() == (), "no node had its workers"


def test_its_nodes_are_returned_if_they_had_its_workers(fleet: FakeFleet) -> None:
    program = started(fleet)
    for at, name in enumerate(("n0", "n1")):
        fleet.node(name).exits(2 * at, 0)
        fleet.node(name).exits(2 * at + 1, 0)
        fleet.node(name).done()
    fleet.step()
    assert program.view().phase is RunPhase.OVER
    assert [one.name for one in program.release_nodes(lambda node: node.name == "n1")] == ["n1"]
    assert program.make_ending().code == 0


def test_it_has_one_run_for_those_who_observe_runs(fleet: FakeFleet) -> None:
    seen: list[ObservedRun] = []
    program = begun(fleet)
    program.observe_runs(seen.append)
    assert [one.role for one in seen] == [*program.roles] == [""]
