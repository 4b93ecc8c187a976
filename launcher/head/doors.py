"""The doors by which features enter the runner: rows with names, imported when a job needs them."""

from __future__ import annotations

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
        module, _, name = self.name.partition(":")
        return getattr(import_module(module, __package__), name)


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
