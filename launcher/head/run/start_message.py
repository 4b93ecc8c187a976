"""What START tells a node: its place, once all nodes are known. Pure."""

from __future__ import annotations

from ...control.messages import Start
from ...resources import world_info

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...specs.plan import Node, Plan


LONGEST = 8 * 1024
"""Letters of DSRUN_WORLD_INFO above which it is compressed: every node is sent it."""


def world_of(plan: Plan) -> str:
    """Return DSRUN_WORLD_INFO of a settled plan; "" where torch knows the nodes, not the plan."""
    if plan.rendezvous is not None:
        return ""
    nodes = {node.host.name: (node.share or node).slots or () for node in plan.nodes}
    return world_info.encode(nodes, LONGEST)


def start_message(plan: Plan, node: Node, master: str, port: int, credit: int, world: str) -> Start:
    """Return the place of a node in a settled plan.

    Args:
        plan: every node's slots are known.
        node: one of its nodes.
        master: where the workers meet, an address of the first node.
        port: of the master.
        credit: bytes of output that it may send before more are granted.
        world: what `world_of` makes of the plan.
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
    """Return how many bytes of output each of so many nodes may have under way.

    Bounds the runner's memory to 64 MiB of output however slow its reader is, and still lets one
    node go at the speed of a pipe.
    """
    return max(64 * 1024, min(1024 * 1024, 64 * 1024 * 1024 // nodes))
