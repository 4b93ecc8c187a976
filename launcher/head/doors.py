"""The doors by which features enter the runner: rows with names, imported when a job needs them."""

from __future__ import annotations

from enum import Enum
from functools import partial

from ..common.entry import load
from ..common.records import NamedTuple
from .run.gate import Gates, GateStage
from .run.node_jobs import may_span_machines

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ..specs.job import JobSpec
    from .report.report import JobReport
    from .run.gate import Gate
    from .run.restart_policy import RestartPolicy
    from .run.run import Run
    from .run.run_state import RunState


class Door(NamedTuple):
    """One feature of a job.

    Attributes:
        name: the function's module below `features/`, a colon, and its name.
        applies: returns whether a job has the feature.
    """

    name: str
    applies: Callable[[JobSpec], bool]


OBSERVERS = (
    Door(".watch.runner:rules", lambda job: bool(job.watch.rules or job.watch.fruitless_rounds)),
    Door(".watch.runner:slow", lambda job: job.watch.slow),
    Door(".watch.runner:hang", lambda job: bool(job.watch.hang_timeout)),
    Door(".watch.runner:debugging", lambda job: job.debug is not None),
    Door(".watch.runner:hooks", lambda job: bool(job.hooks.on_event or job.hooks.metrics_file)),
    Door(".elastic.runner_host_watch:watch", lambda job: bool(job.elastic and job.updates)),
)
"""Features that observe a run: each function is called with the run before it begins. It may
return another function that is called in a thread once the job has ended, and waits until other
programs have received the news."""

RESTART_POLICIES = (
    Door(".elastic.runner_torch_rendezvous:policy", lambda job: job.plan.rendezvous is not None),
    Door(".elastic.runner_policy:policy", lambda job: job.elastic is not None),
)
"""Features that decide on restarts: each function is called with the state of a run, and returns
its restart policy. The first row that applies is used; without one, the first failure or loss ends
the run."""


class GateDoor(NamedTuple):
    """One feature that holds nodes back.

    Attributes:
        name: its class, a `Gate` made with the run, named as in `Door`.
        applies: returns whether a job has the feature.
        stage: the stage at which nodes are held back.
    """

    name: str
    applies: Callable[[JobSpec], bool]
    stage: GateStage


GATES = (
    GateDoor(".sync.runner_gate:SyncedStart", lambda job: job.sync is not None, GateStage.JOB),
    GateDoor(".setup.runner:Setup", lambda job: bool(job.checks.setup), GateStage.JOB),
    GateDoor(".health.runner:Health", lambda job: bool(job.checks.health_command), GateStage.NODE),
    GateDoor(".quick_check.runner_gate:QuickCheck", lambda job: job.checks.quick, GateStage.START),
    GateDoor(".quick_check.runner_interfaces:Interfaces", may_span_machines, GateStage.MASTER),
)
"""Features that hold nodes back until something is done. Those of `GateStage.JOB` are imported with
the run, all others when a node first reaches their stage."""


class RoleRule(Enum):
    """The roles of a job that a verb of dsrun-job asks."""

    ONE = "the role that --role must name, as a job of its own"
    ONE_OR_ALL = "a role in the same way if --role names it, else all together"
    ALL = "all together, whatever --role names"


class JobVerb(NamedTuple):
    """One verb of dsrun-job.

    Attributes:
        name: name of the function for the run of a job of one program, or of one role.
        rule: the roles that it asks.
        of_roles: name of the function for all roles together, unless the rule is `ONE`.
    """

    name: str
    rule: RoleRule = RoleRule.ONE
    of_roles: str = ""


_JOB, _ROLES = ".jobs.runner_requests", ".roles.runner_requests"

VERBS = {
    "status": JobVerb(f"{_JOB}:status", RoleRule.ONE_OR_ALL, f"{_ROLES}:status"),
    "usage": JobVerb(f"{_JOB}:usage", RoleRule.ONE_OR_ALL, f"{_ROLES}:usage"),
    "stacks": JobVerb(f"{_JOB}:stacks"),
    "signal": JobVerb(f"{_JOB}:signal", RoleRule.ONE_OR_ALL, f"{_ROLES}:signal"),
    "stop": JobVerb(f"{_JOB}:stop", RoleRule.ONE_OR_ALL, f"{_ROLES}:stop"),
    "scale": JobVerb(f"{_JOB}:scale"),
    "logs": JobVerb(f"{_JOB}:logs", RoleRule.ONE_OR_ALL, f"{_ROLES}:logs"),
    "report": JobVerb(".jobs.runner_report:report", RoleRule.ONE_OR_ALL, f"{_ROLES}:report"),
    "restart": JobVerb(f"{_JOB}:restart", RoleRule.ALL, f"{_ROLES}:restart"),
}
"""The verbs of a running job, by their names in requests of dsrun-job. A function gets the
`RunAccess` of a run (`features/jobs/runner_socket`), or the `RolesJob` for all roles, and then the
caller, the request and its descriptors; it answers as a `Verb` of `LocalServer` does."""


class SectionDoor(NamedTuple):
    """One section of the report of a job, as `ReportSection`.

    Attributes:
        module: has `fields`, which returns its fields in JSON, given the report.
        applies: returns whether a report has it.
        lines: whether the module has `lines` as well, which returns its lines of the text, given
            the report and its headline, which is "" while the job runs.
    """

    module: str
    applies: Callable[[JobReport], bool]
    lines: bool = False

    def json(self, report: JobReport) -> Mapping[str, object]:
        """Return its fields of a report, {} if the report has none."""
        if not self.applies(report):
            return {}
        made: Mapping[str, object] = load(f"{self.module}:fields")(report)
        return made

    def text(self, report: JobReport, headline: str) -> list[str]:
        """Return its lines beneath the headline, [] if the report has none."""
        if not (self.lines and self.applies(report)):
            return []
        made: list[str] = load(f"{self.module}:lines")(report, headline)
        return made


REPORT_SECTIONS = (
    SectionDoor(".binding.runner_report", lambda told: bool(told.bound)),
    SectionDoor(".watch.runner_hang_report", lambda told: "Hang" in told.kinds, lines=True),
    SectionDoor(".watch.runner_slow_report", lambda told: "Slow" in told.kinds, lines=True),
    SectionDoor(".elastic.runner_report", lambda told: told.restarts > 0),
)
"""The optional sections of reports, in order. A watch's section shows the values of its own class
that the watch has added to `JobRecord.found`."""


def observe(run: Run) -> list[Callable[[], None]]:
    """Make features observe a run; return the functions to call in a thread after the job's end."""
    found = [load(door.name)(run) for door in OBSERVERS if door.applies(run.spec)]
    return [wait for wait in found if wait is not None]


def gates(run: Run) -> Gates:
    """Return the gates of a run, without importing any."""

    def made(name: str) -> Gate:
        gate: Gate = load(name)(run)
        return gate

    return Gates([(row.stage, partial(made, row.name)) for row in GATES if row.applies(run.spec)])


def restart_policy(run: RunState) -> RestartPolicy:
    """Return the restart policy of a run."""
    names = (door.name for door in RESTART_POLICIES if door.applies(run.spec))
    policy: RestartPolicy = load(next(names, "..head.run.restart_policy:NoRestarts"))(run)
    return policy
