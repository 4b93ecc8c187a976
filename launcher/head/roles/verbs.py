"""The verbs of a job of roles: each asks one role as a job of its own, or all together."""

from __future__ import annotations

from functools import partial

from ...common.errors import UsageError
from ..doors import VERBS, RoleRule, opened

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..doors import JobVerb
    from ..local.server import LocalCaller, Message, Verb
    from ..run.run_view import RunView
    from .role_run import RoleRun
    from .roles_job import RolesJob


def of_roles(job: RolesJob, table: Mapping[str, JobVerb] = VERBS) -> dict[str, Verb]:
    """Return the verbs of a job of roles."""
    return {name: partial(_ask, verb, job) for name, verb in table.items()}


def _ask(
    verb: JobVerb, job: RolesJob, caller: LocalCaller, request: Message, fds: list[int]
) -> Message | None:
    answer: Message | None
    names_none = request.get("role") is None
    if verb.rule is RoleRule.ALL or (verb.rule is RoleRule.ONE_OR_ALL and names_none):
        answer = opened(verb.of_roles)(job, caller, request, fds)
    else:
        role, _ = role_of(job, request)
        run = role.access(job.histories[role.name])
        answer = opened(verb.name)(run, caller, request, fds)
    return answer


def role_of(job: RolesJob, request: Message) -> tuple[RoleRun, RunView]:
    """Return the role that a request names, and how its run is now.

    Raises:
        UsageError: it names none, or one that there is not or that has not started.
    """
    name, known = request.get("role"), job.roles
    if name is None:
        raise UsageError(f"--role NAME: expected one of {', '.join(known)}")
    if not isinstance(name, str) or name not in known:
        raise UsageError(f"no role {str(name)[:40]}; its roles are {', '.join(known)}")
    run = known[name].view
    if run is None:
        raise UsageError(f"{name} has not started")
    return known[name], run
