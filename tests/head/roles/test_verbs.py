"""Whom a verb asks in a job of roles."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from dsrun.launcher.common.errors import UsageError
from dsrun.launcher.head.doors import VERBS, JobVerb, RoleRule
from dsrun.launcher.head.roles.verbs import of_roles

from ...support.fake_roles import FakeRoles

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def roles() -> Iterator[FakeRoles]:
    made = FakeRoles()
    yield made
    made.close()


def ask(roles: FakeRoles, do: str, **fields: object) -> Any:
    """Return the answer to a request."""
    caller: Any = None
    return of_roles(roles.job, {**VERBS, **WHOM})[do](caller, fields, [])


def whom(asked: Any, _caller: object, _request: object, _fds: object) -> str:
    """Answer as a verb: of which role, or of which job."""
    return str(asked.view().spec.role if hasattr(asked, "view") else asked.spec.job.job_id)


WHOM = {rule.name: JobVerb(f"{__name__}:whom", rule, f"{__name__}:whom") for rule in RoleRule}


@pytest.mark.parametrize("do", ["stacks", "scale", "restart", "ONE"])
def test_what_needs_a_role_names_them(roles: FakeRoles, do: str) -> None:
    roles.run_all()
    with pytest.raises(UsageError, match=r"--role NAME: expected one of server, trainer$"):
        ask(roles, do)


@pytest.mark.parametrize(
    ("rule", "role", "of"),
    [
        ("ONE", "server", "server"),
        ("ONE_OR_ALL", "trainer", "trainer"),
        ("ONE_OR_ALL", None, "all"),
        ("ALL", None, "all"),
        ("ALL", "server", "all"),
    ],
)
def test_a_row_says_whom_a_verb_asks(
    roles: FakeRoles, rule: str, role: str | None, of: str
) -> None:
    roles.run_all()
    expected = roles.job.spec.job.job_id if of == "all" else of
    assert ask(roles, rule, role=role) == expected


@pytest.mark.parametrize("role", ["helper", 7])
def test_a_role_that_there_is_not(roles: FakeRoles, role: object) -> None:
    roles.run_all()
    with pytest.raises(UsageError, match=f"no role {role}; its roles are server, trainer"):
        ask(roles, "status", role=role)


def test_a_role_that_has_not_started(roles: FakeRoles) -> None:
    with pytest.raises(UsageError, match=r"^trainer has not started$"):
        ask(roles, "ONE", role="trainer")
