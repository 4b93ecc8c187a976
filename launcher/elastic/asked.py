"""What the options ask for of an elastic job. Pure."""

from __future__ import annotations

from ..errors import UsageError
from ..exitcodes import exit_codes
from .rounds import Limits

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..options import Options

DEEPSPEEDS = 100
"""Restarts of `--elastic_training` where nobody says how many: DeepSpeed's (0.19, launch.py)."""


def is_elastic(options: Options) -> bool:
    """Tell whether workers may be restarted, or nodes come and go."""
    some = options.min_elastic_nodes, options.max_elastic_nodes
    asked = options.elastic_training or options.max_restarts or _range(options)
    return bool(asked or any(number is not None for number in some))


def limits(options: Options, nodes: int) -> Limits | None:
    """Return how far a job on so many nodes may shrink and fail; None where it may not at all.

    Raises:
        UsageError: the limits contradict each other, or there are fewer nodes than the least.
    """
    if not is_elastic(options):
        return None
    if options.rank_per_task:
        raise UsageError("--rank_per_task: an elastic job restarts ranks, which MPI cannot do")
    least, most = _nodes(options)
    most = nodes if most is None else most
    least = (1 if options.elastic_training else min(nodes, most)) if least is None else least
    if (options.max_restarts or 0) < 0:
        raise UsageError(f"--max_restarts: expected 0 or more, not {options.max_restarts}")
    if not 1 <= least <= most:
        raise UsageError(f"an elastic job of {least} to {most} nodes: expected 1 <= least <= most")
    if least > nodes:
        raise UsageError(f"an elastic job needs {least} nodes, but there are {nodes}")
    given = DEEPSPEEDS if options.elastic_training else 0
    return Limits(
        least,
        most,
        given if options.max_restarts is None else options.max_restarts,
        options.restart_window,
        options.min_uptime,
        frozenset(exit_codes("--no_restart_codes", options.no_restart_codes)),
    )


def _nodes(options: Options) -> tuple[int | None, int | None]:
    named, found = (options.min_elastic_nodes, options.max_elastic_nodes), _range(options)
    if found and named not in {(None, None), found}:
        raise UsageError(f"--nnodes {options.nnodes} and --min_elastic_nodes or its like: which?")
    return found or named


def _range(options: Options) -> tuple[int, int] | None:
    """Return torchrun's --nnodes MIN:MAX, None where it is one number."""
    least, _, most = (options.nnodes or "").partition(":")
    if not most or most == least or not (least.isdecimal() and most.isdecimal()):
        return None
    return int(least), int(most)
