"""Make the policy of the checks from the options. Pure."""

from __future__ import annotations

from ...common.errors import UsageError, conflict
from ...planning.shape import nodes_range
from ...specs.policies import CheckPolicy
from ..elastic.plan import node_limits

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...cli.options import Options
    from ...specs.job import JobSpec


def plan(options: Options, spec: JobSpec) -> JobSpec:
    """Return a job that is checked as the options say.

    Raises:
        UsageError: see `check_policy`.
    """
    return spec._replace(checks=check_policy(options, len(spec.plan.nodes)))


def check_policy(options: Options, nodes: int) -> CheckPolicy:
    """Return the policy for checks before the workers start on this number of nodes.

    Raises:
        UsageError: options conflict, or would exclude nodes from a job that needs all.
    """
    if options.strict and options.no_check:
        raise conflict("--strict", "--no_check")
    return CheckPolicy(
        **options.policy("checks"),
        least=_least(options, nodes) if options.exclude_unhealthy else None,
    )


def _least(options: Options, nodes: int) -> int:
    """Return the fewest nodes that the job may start with."""
    if options.min_elastic_nodes is None and not nodes_range(options):
        raise UsageError(
            "--exclude_unhealthy: the job needs all its nodes; set how few are enough with"
            " --min_elastic_nodes N"
        )
    if options.rank_per_task:
        raise UsageError("--exclude_unhealthy: not with --rank_per_task, as MPI starts all ranks")
    return node_limits(options, nodes)[0]
