"""The shape of a job from the options: its nodes, and whether their number may change. Pure."""

from __future__ import annotations

from ..common.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..cli.options import Options

GROWING = ("watch_hostfile", "host_discovery_script")
"""Options that can add hosts to a running job."""


def has_own_logs(options: Options) -> bool:
    """Return whether dsrun names the log files, rather than an entry point of torch's agent."""
    return options.logs_specs == "default"


def has_private_logs(options: Options) -> bool:
    """Return whether output is redirected to log files without a folder being given for them."""
    redirected = any(part.rpartition(":")[2] != "0" for part in options.redirects.split(","))
    return redirected and not options.log_dir and has_own_logs(options)


def is_elastic(options: Options) -> bool:
    """Return whether the job has rounds: workers may be restarted, nodes may join and leave.

    With --exclude_unhealthy, --min_elastic_nodes alone only limits the number of nodes at the
    start.
    """
    wanted = options.elastic_training or options.max_restarts or nodes_range(options)
    wanted = wanted or not has_own_logs(options) or options.max_elastic_nodes is not None
    shrinks = options.min_elastic_nodes is not None and not options.exclude_unhealthy
    return bool(wanted or shrinks)


def grows(options: Options) -> bool:
    """Return whether hosts can be added while the job runs."""
    return any(getattr(options, name) for name in GROWING)


def nodes_range(options: Options) -> tuple[int, int] | None:
    """Return torchrun's --nnodes MIN:MAX; None if --nnodes is a single number."""
    least, most = bounds(options.nnodes or "1")
    return (least, most) if least < most else None


def bounds(nnodes: str) -> tuple[int, int]:
    """Return the minimum and the maximum of --nnodes N or MIN:MAX.

    Raises:
        UsageError: the text has neither form.
    """
    least, colon, most = nnodes.partition(":")
    most = most if colon else least
    if not (least.isdecimal() and most.isdecimal() and 1 <= int(least) <= int(most)):
        raise UsageError(f"--nnodes {nnodes}: expected N or MIN:MAX, such as 2 or 1:4, MIN first")
    return int(least), int(most)
