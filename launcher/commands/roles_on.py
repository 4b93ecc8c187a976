"""A job of several roles on the nodes of a hold (dsrun --on NAME --roles FILE)."""

from __future__ import annotations

from functools import partial

from ..common import entry
from ..control import holds
from ..planning import held
from ..planning.roles import dry_run
from ..planning.roles.held import held_roles
from ..specs import codec
from .on import planned, run_for

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..cli.parser import Command
    from ..planning.roles.table import RoleTable


def run_on_hold(command: Command, tables: Sequence[RoleTable]) -> int:
    """Run roles on held nodes; return the exit code.

    Raises:
        DsrunError: the job cannot be run, or has failed; nothing of it is left running.
    """
    options = command.options
    held.check_given(options.on or "", command.given)
    with holds.find(options.on or "") as client:
        spec = planned(command, client, partial(held_roles, command, tables))
        if options.dry_run:
            show = dry_run.as_json if options.json else dry_run.as_table
            entry.write(f"{show(spec, []).rstrip()}\n")
            return 0
        reads = any(role.job.output.stdin for role in spec.roles)
        job = spec.job._replace(output=spec.job.output._replace(stdin=reads))
        request = {"do": "run_roles", "spec": codec.encode(spec), "busy": options.on_busy}
        return run_for(client, job, request)
