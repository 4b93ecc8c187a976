"""A job of several roles on held nodes: the hold has chosen hosts and launcher."""

from __future__ import annotations

from .. import held as one_program
from .spec import Nodes, roles_spec

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...cli.parser import Command
    from ...specs.roles import RolesSpec
    from ..held import HeldNodes
    from .table import RoleTable


def held_roles(command: Command, tables: Sequence[RoleTable], held: HeldNodes) -> RolesSpec:
    """Return a job of several roles on held nodes.

    Args:
        command: the options of the whole job, checked.
        tables: its roles, as they are written.
        held: the nodes.

    Raises:
        UsageError: a role is not valid or cannot be placed; the message names it.
        NodeError: the nodes are lost at present.
    """
    inventory, hosts, choice = one_program.nodes_for(command.options, held)
    spec = roles_spec(command, tables, Nodes(inventory, hosts, choice))
    roles = (role._replace(job=one_program.on_hold(role.job, held, hosts)) for role in spec.roles)
    return spec._replace(job=one_program.on_hold(spec.job, held, hosts), roles=tuple(roles))
