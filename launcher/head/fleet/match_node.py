"""The plan's node for a node launcher that an engine started. Pure.

The engine's order may differ from the hostfile's: Slurm sorts. If the plan has the host's name, the
name decides. If not (an address, an alias), or if several tasks share a host, the engine's task
number decides. If the two contradict each other, the start fails.
"""

from __future__ import annotations

import re

from ...common.network import same_host

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...specs.plan import Node


MOST_NAMES = 4
"""Most names of one host to compare: the engine's and its own (`node.engine_task`)."""

# int() accepts more: digits of all scripts, in any number.
_NUMBER = re.compile("[0-9]{1,9}")


class WrongNode(Exception):
    """The engine has started a task on a host other than the planned one."""


def place(identity: str, nodes: Sequence[Node]) -> Node | None:
    """Return the node that a caller is, or None if there is no such node.

    Args:
        identity: a host's name as in the plan, or "INDEX@NAME,NAME" as returned by `task_identity`.
        nodes: the nodes that were started, in the order passed to the engine.

    Raises:
        WrongNode: the number belongs to one node, and the name to another.
    """
    number, numbered, listed = identity.partition("@")
    if not numbered:
        return next((node for node in nodes if node.host.name == identity), None)
    if not _NUMBER.fullmatch(number) or int(number) >= len(nodes):
        return None
    counted = nodes[int(number)]
    names = listed.split(",")[:MOST_NAMES]
    known = [n for n in nodes if any(same_host(n.host.name, name) for name in names)]
    if not known or counted in known:
        return counted
    if len(known) == 1:
        return known[0]
    raise WrongNode(
        f"the engine started task {number} on {known[0].host.name}, but the plan has it on"
        f" {counted.host.name}; remove options that change the order from --launcher_args",
    )
