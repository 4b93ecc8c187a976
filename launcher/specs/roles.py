"""A job of several programs: the nodes, the start and the end of each."""

from __future__ import annotations

from ..common.records import NamedTuple
from .field_types import register

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .job import JobSpec
    from .program import Program

ENDS = ("job", "wait", "never")
"""The effect of a role's clean end: the job is over; the job waits for it; it is a failure."""

ON_FAILURE = ("job", "restart")
"""The reaction to a role's failure: the job fails, or this role alone is started again."""

READY = ("started", "port", "http", "line", "file")
"""The conditions for readiness: its workers run; a port accepts; a path answers 200; a line was
printed; a file exists."""


class Ready(NamedTuple):
    """The condition under which a role counts as ready.

    Attributes:
        kind: one of `READY`.
        port: the name of the port, for `port` and `http`.
        what: the path of `http`, the regular expression of `line`, or the path of `file`.
        timeout: seconds from the start of its workers, after which the role has failed.
    """

    kind: str = "started"
    port: str = ""
    what: str = ""
    timeout: float = 600.0


class RoleSpec(NamedTuple):
    """One program of a job, with separate ranks and a separate master.

    Attributes:
        name: matches `[a-z][a-z0-9_]*`; unique in the job.
        job: its nodes with the slots it uses there, its program, and its own policies. Words of the
            program may have placeholders: `{port.NAME}`, `{ROLE.addrs}`, `{ROLE.hosts}`.
        ends: one of `ENDS`.
        after: the roles that have to be ready before this one starts.
        ready: the condition under which it counts as ready.
        ports: names of the ports that are reserved on each of its nodes.
        on_failure: one of `ON_FAILURE`.
        max_restarts: the maximum number of its restarts, with `restart`.
    """

    name: str
    job: JobSpec
    ends: str
    after: tuple[str, ...] = ()
    ready: Ready = Ready()
    ports: tuple[str, ...] = ()
    on_failure: str = "job"
    max_restarts: int = 3


class RolesSpec(NamedTuple):
    """A job of several roles.

    Attributes:
        job: all nodes with all their slots, and the settings to reach them, as a job that is never
            started; the job id and the output policy are the whole job's.
        roles: all roles, in the order of the file or the command line.
    """

    job: JobSpec
    roles: tuple[RoleSpec, ...]

    @property
    def programs(self) -> dict[str, Program]:
        """The program of each role, by its name."""
        return {role.name: role.job.plan.program for role in self.roles}

    @property
    def role_ends(self) -> dict[str, str]:
        """The effect of the clean end of each role, by its name."""
        return {role.name: role.ends for role in self.roles}


register(Ready, RoleSpec, RolesSpec)
