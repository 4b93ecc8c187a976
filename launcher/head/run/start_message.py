"""The contents of START: a node's place, once all nodes are known. Pure."""

from __future__ import annotations

from ...control.messages import Start
from ...resources import world_info

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...specs.plan import Node, Plan


LONGEST = 8 * 1024
"""Characters of DSRUN_WORLD_INFO beyond which it is compressed: it is sent to every node."""


def world_of(plan: Plan) -> str:
    """Return DSRUN_WORLD_INFO of a settled plan; "" if only torch's rendezvous knows all nodes."""
    if plan.rendezvous is not None:
        return ""
    nodes = {node.host.name: (node.share or node).slots or () for node in plan.nodes}
    return world_info.encode(nodes, LONGEST)


def start_message(plan: Plan, node: Node, master: str, port: int, credit: int, world: str) -> Start:
    """Return the START message of a node.

    Args:
        plan: with the slots of every node known.
        node: one of its nodes.
        master: MASTER_ADDR, an address of the first node.
        port: MASTER_PORT.
        credit: bytes of output that it may send before more are granted.
        world: the result of `world_of` for the plan.
    """
    whole = Start(
        first_rank=node.first_rank or 0,
        slots=node.slots or (),
        world_size=plan.world_size or 0,
        node_rank=node.rank,
        nodes=len(plan.nodes),
        master_addr=master,
        master_port=port,
        credit=credit,
        world=world,
    )
    share = node.share
    if share is None:
        return whole
    return whole._replace(
        first_rank=whole.first_rank - share.local_rank,
        slots=share.slots,
        node_rank=share.node_rank,
        nodes=share.nodes,
        only=share.local_rank,
    )


def window(nodes: int) -> int:
    """Return how many bytes of unprinted output each of so many nodes may send.

    This bounds the runner's memory to 64 MiB of output however slow its reader is, and still lets
    one node write at the speed of a pipe.
    """
    return max(64 * 1024, min(1024 * 1024, 64 * 1024 * 1024 // nodes))
