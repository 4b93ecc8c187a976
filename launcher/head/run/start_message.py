"""What tells nodes their places: START, and which node gets it first, and ROUND of each round."""

from __future__ import annotations

import json

from ...control import frames
from ...control.messages import Start
from ...specs.plan import encode_world

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from ...specs.plan import Node, Plan
    from .run_node import RunNode

LONGEST = 8 * 1024
"""Characters of DSRUN_WORLD_INFO beyond which it is compressed: it is sent to every node."""


def world_of(plan: Plan) -> str:
    """Return DSRUN_WORLD_INFO of a settled plan; "" if only torch's rendezvous knows all nodes."""
    if plan.rendezvous is not None:
        return ""
    nodes = {node.host.name: (node.share or node).slots or () for node in plan.nodes}
    return encode_world(nodes, LONGEST)


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


OWN = ("first_rank", "slots", "node_rank")
"""What differs from node to node in the message of a round."""


def round_frames(start: Start, nodes: Sequence[Node]) -> Iterator[bytes]:
    """Return the ROUND frame of each of these nodes, given the message of any of them.

    What is the same for all is encoded once.
    """
    common = {name: value for name, value in start._asdict().items() if name not in OWN}
    rest = _encoded(common)[1:]
    for node in nodes:
        own = _encoded(dict(zip(OWN, (node.first_rank, node.slots, node.rank), strict=True)))
        yield frames.pack(frames.ROUND, own[:-1] + b"," + rest)


def _encoded(fields: dict[str, object]) -> bytes:
    return json.dumps(fields, separators=(",", ":")).encode()


def window(nodes: int) -> int:
    """Return how many bytes of unprinted output each of so many nodes may send.

    This bounds the runner's memory to 64 MiB of output however slow its reader is, and still lets
    one node write at the speed of a pipe.
    """
    return max(64 * 1024, min(1024 * 1024, 64 * 1024 * 1024 // nodes))


class StagedStart:
    """Starts the other nodes once the first has released the master port.

    The first node's launcher listens there until START; then the store of rank 0 does. A worker of
    another node must not connect to the former.

    Attributes:
        first: the node of rank 0.
    """

    def __init__(self, first: RunNode, send: Callable[[Sequence[RunNode], bytes], None]) -> None:
        """Send nothing yet."""
        self.first = first
        self._send_to = send
        self._held: list[tuple[RunNode, bytes]] = []
        self._begins = False

    def send(self, starts: Sequence[tuple[RunNode, bytes]], *, begins: bool) -> None:
        """Send START to the first node, and keep the others back.

        `begins` tells whether workers begin with it.
        """
        self._begins, ((self.first, frame), *self._held) = begins, starts
        self._send(self.first, frame)

    def _send(self, node: RunNode, frame: bytes) -> None:
        if self._begins:
            node.begin()
        self._send_to((node,), frame)

    def on_answer(self, node: RunNode) -> None:
        """Start the others if this is the first node's answer to its START, or its loss.

        A job that goes on without it chooses another first node.
        """
        if node is self.first:
            held, self._held = self._held, []
            for other, frame in held:
                self._send(other, frame)

    def drop(self, node: RunNode) -> None:
        """Drop the START of a node that is released, or whose node launcher is another by now."""
        self._held = [one for one in self._held if one[0] is not node]

    def cancel(self) -> None:
        """Drop the frames that were kept back."""
        self._held = []
