"""Signals for a job of roles, and its stop, as a program asks for them."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import pytest

from dsrun.launcher.common.errors import DsrunError, LostError, UsageError
from dsrun.launcher.control import frames, messages
from dsrun.launcher.head.roles import control

from ...support.fake_roles import HOSTS, FakeRoles

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def roles() -> Iterator[FakeRoles]:
    made = FakeRoles()
    made.run_all()
    yield made
    made.close()


def stops(roles: FakeRoles, role: str) -> list[messages.Stop]:
    """Return what the first node of a role was told."""
    received = roles.node(HOSTS[role][0]).received
    return [messages.unpack(messages.Stop, body) for kind, body in received if kind == frames.STOP]


def test_a_signal_is_passed_on_to_all_ranks(roles: FakeRoles) -> None:
    control.send(roles.job, int(signal.SIGUSR1))
    roles.step()
    assert [roles.got(name, frames.SIGNAL) for name in HOSTS] == [1, 2]
    assert not roles.job.ending


def test_a_signal_that_ends_jobs_stops_dependants_first(roles: FakeRoles) -> None:
    control.send(roles.job, int(signal.SIGINT))
    roles.step()
    assert [one.number for one in stops(roles, "trainer")] == [signal.SIGINT]
    assert stops(roles, "server") == []


@pytest.mark.parametrize("number", ["9", 0, 900, True])
def test_what_is_no_signal_is_refused(roles: FakeRoles, number: object) -> None:
    with pytest.raises(UsageError, match="no such signal"):
        control.send(roles.job, number)
    assert not roles.job.ending


def test_a_kill_leaves_no_time(roles: FakeRoles) -> None:
    control.send(roles.job, int(signal.SIGKILL))
    roles.step()
    assert stops(roles, "trainer")[-1].grace == 0.0
    assert stops(roles, "server")[-1].grace == 0.0


def test_a_grace_is_for_all_roles_together(roles: FakeRoles) -> None:
    control.stop(roles.job, 3)
    roles.step()
    assert stops(roles, "server") == []
    roles.go(3.0)
    assert stops(roles, "server")[-1].grace == 0.0


@pytest.mark.parametrize("grace", ["1", -1, True, float("nan")])
def test_what_is_no_grace_is_refused(roles: FakeRoles, grace: object) -> None:
    with pytest.raises(UsageError, match="grace: expected seconds"):
        control.stop(roles.job, grace)
    assert not roles.job.ending


@pytest.mark.parametrize(
    ("error", "code"), [(UsageError("no such folder"), 2), (LostError("no such folder"), 75)]
)
def test_an_error_before_the_start_is_its_end(error: DsrunError, code: int) -> None:
    roles = FakeRoles()
    roles.job.begin()
    control.control_of(roles.job).refuse(error)
    roles.step()
    roles.clock.go(1.0)
    roles.step()
    ending = roles.job.conclude()
    assert (ending.code, str(ending.error)) == (code, "role server: no such folder")
    roles.close()
