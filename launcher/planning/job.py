"""Make the job of a command line."""

from __future__ import annotations

import os

from ..cli.options import written
from ..common.errors import UsageError
from ..specs.job import JobSpec, new_job_id
from . import preflight
from .binding import binding_policy, core_lists
from .checks import check_policy
from .debug import debug_policy
from .elastic import elastic_policy
from .environment import travel
from .folders import workdir
from .hosts import host_updates
from .planner import make_plan
from .policies import (
    dial_in,
    hook_policy,
    output_policy,
    report_file,
    supervision_policy,
    worker_policy,
)
from .watch import watch_policy

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..cli.options import Options
    from ..cli.parser import Command
    from ..specs.origin import Origin
    from ..specs.plan import Plan
    from ..specs.policies import ElasticPolicy
    from .planner import PlannedJob


def plan_job(command: Command) -> JobSpec:
    """Return the job of a command line.

    Raises:
        UsageError: options conflict, or name something that does not exist.
    """
    return job_spec(make_plan(command), command.options)


def job_spec(planned: PlannedJob, options: Options, only: int | None = None) -> JobSpec:
    """Return the job of a plan; `only` is the only node rank that this process starts.

    Raises:
        UsageError: options are invalid, or name something that does not exist here.
    """
    plan, origin, unread = planned.plan, planned.origin, dict[str, None]()
    environment = travel(options, unread.setdefault)
    notes: tuple[str, ...] = ()
    if written(options):
        from . import output_files

        notes = output_files.check(options, output_files.inputs(options, plan.program.script))
    elastic = _elastic(options, plan)
    core_list, by_host = _core_lists(options, plan)
    spec = JobSpec(
        job_id=new_job_id(),
        plan=plan,
        workdir=workdir(options),
        travel=environment,
        workers=worker_policy(options, plan),
        backend=planned.backend,
        binding=binding_policy(options)._replace(core_list=core_list),
        core_lists=by_host,
        supervision=supervision_policy(options, os.environ),
        output=output_policy(options),
        checks=check_policy(options, len(plan.nodes)),
        watch=watch_policy(options, elastic),
        hooks=hook_policy(options),
        debug=debug_policy(options),
        elastic=elastic,
        updates=host_updates(options),
        batches=planned.batches,
        dial_in=dial_in(options, plan),
        origin=_noted(origin._replace(notes=(*origin.notes, *unread, *notes)), options),
        only=only,
    )
    if options.sync is not None:
        from .sync import sync_spec

        spec = spec._replace(sync=sync_spec(options, spec))
    preflight.check(spec)
    problem = spec.misfit(plan, bare=False)
    if problem:
        raise UsageError(problem)
    return spec


def _noted(origin: Origin, options: Options) -> Origin:
    """Return where a plan comes from, with a note on a report that does not go where it says."""
    path = report_file(options, os.environ)
    if path == options.report_file:
        return origin
    note = f"the report goes to {path}: {options.report_file} is from an attempt before the requeue"
    return origin._replace(notes=(*origin.notes, note))


def _elastic(options: Options, plan: Plan) -> ElasticPolicy | None:
    """Return how far a job may change; None if it may not, or torch decides."""
    return elastic_policy(options, len(plan.nodes)) if plan.rendezvous is None else None


def _core_lists(options: Options, plan: Plan) -> tuple[str, tuple[tuple[str, str], ...]]:
    """Return the CPUs of all hosts, and (host, CPUs) of those that have their own."""
    return core_lists(options.bind_core_list, [node.host.name for node in plan.nodes])
