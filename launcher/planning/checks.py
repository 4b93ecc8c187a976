"""Make the policy of the checks from the options. Pure."""

from __future__ import annotations

from ..common.errors import UsageError, conflict
from ..specs.check_policy import CheckPolicy
from .elastic import nodes_range

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..cli.options import Options


def check_policy(options: Options) -> CheckPolicy:
    """Return what is checked before the workers start.

    Raises:
        UsageError: options conflict, or nodes are to be excluded from a job that needs all.
    """
    if options.strict and options.no_check:
        raise conflict("--strict", "--no_check")
    if options.exclude_unhealthy and options.min_elastic_nodes is None and not nodes_range(options):
        raise UsageError(
            "--exclude_unhealthy: the job needs all its nodes; say how few are enough with"
            " --min_elastic_nodes N"
        )
    return CheckPolicy(
        quick=not options.no_check,
        strict=options.strict,
        health_command=options.health_command,
        health_timeout=options.health_timeout,
        exclude_unhealthy=options.exclude_unhealthy,
    )
