"""From the options of dsrun-hold to the nodes that are held."""

from __future__ import annotations

from ...cli.parser import Command
from ...common.errors import UsageError
from ...control import local
from ...planning.hosts import by_rank
from ...planning.job import job_spec
from ...planning.planner import make_plan
from ...specs.hold import HoldSpec
from ...specs.program import CHECK
from .plan_held import LAST

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...cli.options import Options


def plan_hold(options: Options, name: str = "", idle_timeout: float = 0.0) -> HoldSpec:
    """Return the nodes to hold, with their job.

    Args:
        options: the options that dsrun-hold shares with dsrun.
        name: the name of the hold for jobs; "" for the end of the job id.
        idle_timeout: seconds without a run until the nodes are released; 0 for never.

    Raises:
        UsageError: an option is invalid, or nodes reached in this way cannot be held.
    """
    check(options, name)
    options = options.changed(module=True)
    planned = make_plan(Command(options, (CHECK,), frozenset()))
    job = job_spec(planned, options)
    program = planned.plan.program._replace(local_rank=False)
    # Preloaded modules are imported as for jobs of this folder; it need not be there otherwise.
    folder = job.workdir if job.workers.preload else "/"
    checks = job.checks._replace(quick=False)  # Each job on the nodes makes its own.
    plan = job.plan._replace(program=program)
    job = job._replace(plan=plan, workdir=folder, checks=checks, held=True)
    return HoldSpec(name or job.job_id.rpartition("-")[2], job, idle_timeout)


def check(options: Options, name: str) -> None:
    """Check the options as far as possible before there are nodes; see `plan_hold`."""
    if by_rank(options):
        raise UsageError("--no_ssh: nodes that join on their own cannot be held")
    if name and not local.is_name(name):
        raise UsageError(
            f"--name {name[:80]!r}: expected letters and digits, and . _ - between them"
        )
    if name == LAST:
        raise UsageError(f"--name {name}: is reserved for the newest hold; choose another name")
