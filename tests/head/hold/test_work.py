"""What runs on held nodes: the roles of a job, as a held run uses them."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING, cast

import pytest

from dsrun.launcher.common.errors import DsrunError, LostError, UsageError
from dsrun.launcher.control import frames, local
from dsrun.launcher.head.hold import work

from ...support.fake_roles import FakeRoles

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dsrun.launcher.head.job.job import Job


@pytest.fixture
def roles() -> Iterator[FakeRoles]:
    made = FakeRoles()
    made.run_all()
    yield made
    made.close()


class FakeJob:
    """A job whose hooks are noted."""

    hooks: object = None


def test_signals_reach_all_roles(roles: FakeRoles) -> None:
    one = work.of_roles(roles.job)
    one.pass_on(signal.SIGUSR1)
    roles.step()
    assert [roles.got(name, frames.SIGNAL) for name in ("server", "trainer")] == [1, 2]


def test_its_end_is_that_of_its_roles(roles: FakeRoles) -> None:
    one, job = work.of_roles(roles.job), FakeJob()
    one.end(signal.SIGTERM, "dsrun-hold --release")
    roles.step()
    roles.ends("trainer", -signal.SIGTERM, told=True)
    roles.ends("server", -signal.SIGTERM, told=True)
    assert roles.overs == 1
    ending = one.conclude(cast("Job", job))
    assert (ending.code, job.hooks) == (128 + signal.SIGTERM, [])
    assert "stopped by dsrun-hold --release after" in ending.text
    assert any("dsrun-hold --release: stopping all roles" in line for line in roles.said())


@pytest.mark.parametrize(
    ("error", "code"), [(UsageError("no such folder"), 2), (LostError("no such folder"), 75)]
)
def test_an_error_before_the_start_is_its_end(error: DsrunError, code: int) -> None:
    roles = FakeRoles()
    roles.job.begin()
    work.of_roles(roles.job).refuse(error)
    roles.step()
    roles.clock.go(1.0)
    roles.step()
    ending = roles.job.conclude()
    assert (ending.code, str(ending.error)) == (code, "role server: no such folder")
    roles.close()


def test_nobody_can_ask_it_any_more_once_its_nodes_are_given_back(roles: FakeRoles) -> None:
    one = work.of_roles(roles.job)
    one.end(signal.SIGTERM, "")
    roles.step()
    roles.ends("trainer", -signal.SIGTERM, told=True)
    roles.ends("server", -signal.SIGTERM, told=True)
    one.conclude(cast("Job", FakeJob()))
    local.listener(local.JOB, roles.job.spec.job.job_id).close()  # the name is free
