"""Which node of the plan a caller is, of node launchers that an engine has started. Pure.

The engine's own order need not be the hostfile's: Slurm sorts. So a host's name decides where it
is known, and the engine's number where hosts are called otherwise than in the plan (an address, an
alias) or several tasks share a host. Where the two contradict each other, nothing may start.
"""

from __future__ import annotations

import re

from ...common.network import same_host

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...specs.plan import Node


MOST_NAMES = 4
"""Names of one host that are looked at: the engine's and its own (`node.engine_task`)."""

# What int() takes is more: digits of all scripts, and thousands of them.
_NUMBER = re.compile("[0-9]{1,9}")


class WrongNode(Exception):
    """A caller is where the plan has somebody else; the message says who and where.

    Attributes:
        rank: of the node that is missing for it.
    """

    def __init__(self, rank: int, message: str) -> None:
        super().__init__(message)
        self.rank = rank


def place(who: str, nodes: Sequence[Node]) -> Node | None:
    """Return the node that a caller is, or None: it is none of them.

    Args:
        who: a host's name as the plan has it, or "INDEX@NAME,NAME" (`node.engine_task.who`).
        nodes: the nodes that were started, in the order in which the engine was given them.

    Raises:
        WrongNode: the number is one node's, and the name is another's.
    """
    number, numbered, listed = who.partition("@")
    if not numbered:
        return next((node for node in nodes if node.host.name == who), None)
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
        counted.rank,
        f"the engine put task {number} on {known[0].host.name}, the plan has it on"
        f" {counted.host.name}; give the engine no order of its own (--launcher_args)",
    )
