"""From the options of dsrun-check to a job that is never started: its nodes and checks."""

from __future__ import annotations

from ...cli.parser import Command
from ...common.errors import UsageError
from ...planning.hosts import by_rank
from ...planning.job import job_spec
from ...planning.planner import make_plan
from ...specs.program import CHECK
from ..hold.plan_held import held_job

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...cli.options import Options
    from ...specs.job import JobSpec
    from ..hold.plan_held import HoldAnswer


def plan_check(options: Options, script: Sequence[str], held: HoldAnswer | None = None) -> JobSpec:
    """Return a job for these nodes.

    Args:
        options: the options that dsrun-check shares with dsrun.
        script: the script with its arguments, expected on the nodes; () for none.
        held: the nodes of a hold, if one was named.

    Raises:
        UsageError: an option is invalid, or nodes cannot be reached in this way.
        NodeError: the nodes of the hold are lost.
    """
    if by_rank(options):
        raise UsageError("--no_ssh: nodes that join on their own cannot be checked")
    if not script:
        options = options.changed(module=True)
    command = Command(options, tuple(script) or (CHECK,), frozenset())
    return held_job(command, held) if held else job_spec(make_plan(command), options)
