"""Make the job of a command line."""

from __future__ import annotations

import os

from ..cli.options import written
from ..common.errors import UsageError
from ..specs.job import JobSpec, new_job_id
from . import preflight
from .doors import with_features
from .environment import travel
from .folders import workdir
from .planner import make_plan
from .policies import dial_in, output_policy, report_file, supervision_policy, worker_policy

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..cli.options import Options
    from ..cli.parser import Command
    from ..specs.plan import Origin
    from .planner import PlannedJob


def plan_job(command: Command) -> JobSpec:
    """Return the job of a command line.

    Raises:
        UsageError: options conflict, or name something that does not exist.
    """
    return job_spec(make_plan(command), command.options)


def job_spec(planned: PlannedJob, options: Options, only: int | None = None) -> JobSpec:
    """Return the job of a plan; `only` is the rank of the only node that this process starts.

    Raises:
        UsageError: options are invalid, or name something that does not exist here.
    """
    plan, origin, unread = planned.plan, planned.origin, dict[str, None]()
    environment = travel(options, unread.setdefault)
    notes: tuple[str, ...] = ()
    if written(options):
        from . import output_files

        notes = output_files.check(options, output_files.inputs(options, plan.program.script))
    spec = JobSpec(
        job_id=new_job_id(),
        plan=plan,
        workdir=workdir(options),
        travel=environment,
        workers=worker_policy(options, plan),
        backend=planned.backend,
        supervision=supervision_policy(options, os.environ),
        output=output_policy(options),
        batches=planned.batches,
        dial_in=dial_in(options, plan),
        origin=_noted(origin._replace(notes=(*origin.notes, *unread, *notes)), options),
        only=only,
    )
    spec = with_features(options, spec)
    preflight.check(spec)
    problem = spec.misfit(plan, bare=False)
    if problem:
        raise UsageError(problem)
    return spec


def _noted(origin: Origin, options: Options) -> Origin:
    """Return the origin of a plan, with a note if the report goes to another file than asked."""
    path = report_file(options, os.environ)
    if path == options.report_file:
        return origin
    note = f"the report goes to {path}: {options.report_file} is from an attempt before the requeue"
    return origin._replace(notes=(*origin.notes, note))
