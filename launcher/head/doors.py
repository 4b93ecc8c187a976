"""The doors by which features enter the runner: rows with names, imported when a job needs them."""

from __future__ import annotations

from enum import Enum
from importlib import import_module

from ..common.values import NamedTuple
from .run.restart_policy import NoRestarts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from ..specs.job import JobSpec
    from .run.restart_policy import RestartPolicy
    from .run.run import Run
    from .run.run_state import RunState


class Door(NamedTuple):
    """One feature of a job.

    Attributes:
        name: the function's module below this folder, a colon, and its name.
        applies: returns whether a job has the feature.
    """

    name: str
    applies: Callable[[JobSpec], bool]

    def open(self) -> Any:
        """Return the function."""
        return opened(self.name)


def opened(name: str) -> Any:
    """Return a function by its module below this folder, and its own name."""
    module, _, function = name.partition(":")
    return getattr(import_module(module, __package__), function)


OBSERVERS = (
    Door(".watch.attach:rules", lambda job: bool(job.watch.rules or job.watch.fruitless_rounds)),
    Door(".watch.attach:slow", lambda job: job.watch.slow),
    Door(".watch.attach:hang", lambda job: bool(job.watch.hang_timeout)),
    Door(".watch.attach:debugging", lambda job: job.debug is not None),
    Door(".watch.attach:metrics", lambda job: job.hooks.metrics_file is not None),
    Door(".watch.attach:commands", lambda job: bool(job.hooks.on_event)),
    Door(".elastic.host_watch:watch", lambda job: bool(job.elastic and job.updates)),
)
"""Features that observe a run: each function is called with the run before it begins. It may
return another function that is called in a thread once the job has ended, and waits until other
programs have received the news."""

RESTART_POLICIES = (
    Door(".elastic.torch_rendezvous:policy", lambda job: job.plan.rendezvous is not None),
    Door(".elastic.runner_rounds:policy", lambda job: job.elastic is not None),
)
"""Features that decide on restarts: each function is called with the state of a run, and returns
its restart policy. The first row that applies is used; without one, the first failure or loss ends
the run."""


class RoleRule(Enum):
    """Whom a verb of dsrun-job asks in a job of roles."""

    ONE = "the role that --role must name, as a job of its own"
    ONE_OR_ALL = "a role in the same way if --role names it, else all together"
    ALL = "all together, whatever --role names"


class JobVerb(NamedTuple):
    """One verb of dsrun-job.

    Attributes:
        name: of the function that asks the run of a job of one program, or of one role.
        rule: whom it asks in a job of roles.
        of_roles: name of the function that asks all roles together, unless the rule is `ONE`.
    """

    name: str
    rule: RoleRule = RoleRule.ONE
    of_roles: str = ""


VERBS = {
    "status": JobVerb(".job.job_requests:status", RoleRule.ONE_OR_ALL, ".roles.requests:status"),
    "usage": JobVerb(".job.job_requests:usage", RoleRule.ONE_OR_ALL, ".roles.requests:usage"),
    "stacks": JobVerb(".job.job_requests:stacks"),
    "signal": JobVerb(
        ".job.job_requests:send_signal", RoleRule.ONE_OR_ALL, ".roles.requests:send_signal"
    ),
    "stop": JobVerb(".job.job_requests:stop", RoleRule.ONE_OR_ALL, ".roles.requests:stop"),
    "scale": JobVerb(".job.job_requests:scale"),
    "logs": JobVerb(".job.job_requests:logs", RoleRule.ONE_OR_ALL, ".roles.requests:logs"),
    "report": JobVerb(".job.report_request:report", RoleRule.ONE_OR_ALL, ".roles.requests:report"),
    "restart": JobVerb(".job.job_requests:restart", RoleRule.ALL, ".roles.requests:restart"),
}
"""What dsrun-job can ask a running job, by the name in its request. A function of a run gets its
`RunAccess` (`job/job_socket`), one of all roles their `RolesJob`; then the caller, the request and
its descriptors, as a `Verb` of `LocalServer`, and it answers as one."""


def observe(run: Run) -> list[Callable[[], None]]:
    """Make features observe a run; return the functions to call in a thread after the job's end."""
    found = [door.open()(run) for door in OBSERVERS if door.applies(run.spec)]
    return [wait for wait in found if wait is not None]


def restart_policy(run: RunState) -> RestartPolicy:
    """Return the restart policy of a run."""
    for door in RESTART_POLICIES:
        if door.applies(run.spec):
            policy: RestartPolicy = door.open()(run)
            return policy
    return NoRestarts(run)
