"""The JSON types of `--roles FILE --dry_run --json`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, TypedDict

from ...common.json_types import one_of
from ...planning.json_types import PlanJson
from ...specs.roles import ENDS, ON_FAILURE, Ready


class RoleJson(TypedDict):
    """One program of the job, with separate ranks and a separate master.

    Attributes:
        name: its name, unique in the job.
        job: its nodes with the slots it uses there, its program, and its own policies. Words of the
            program may have placeholders: `{port.NAME}`, `{ROLE.addrs}`, `{ROLE.hosts}`.
        ends: effect of its clean end: the job is over; the job does not end without it; a failure.
        after: the roles that have to be ready before this one starts.
        ready: the condition under which it counts as ready.
        ports: names of the ports that are reserved on each of its nodes.
        on_failure: the effect of its failure: the job fails, or only this role is started again.
        max_restarts: the maximum number of its restarts, with `restart`.
    """

    name: Annotated[str, ("pattern", "^[a-z][a-z0-9_]*$")]
    job: PlanJson
    ends: Annotated[str, one_of(ENDS)]
    after: Sequence[str]
    ready: Ready
    ports: Sequence[str]
    on_failure: Annotated[str, one_of(ON_FAILURE)]
    max_restarts: int


class RolesPlan(TypedDict):
    """The job of several roles that dsrun would run, as one JSON object on standard output.

    Attributes:
        job: all nodes, and how they are reached.
        order: groups of roles: each starts once those before it that it waits for are ready.
        roles: the roles in the order in which they are written.
    """

    job: PlanJson
    order: Sequence[Sequence[str]]
    roles: list[RoleJson]
