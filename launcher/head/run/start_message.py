"""The frames that tell nodes their places: START, sent to the first node first, and ROUND."""

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
"""Characters of DSRUN_WORLD_INFO, sent to every node, beyond which it is compressed."""


def world_of(plan: Plan) -> str:
    """Return DSRUN_WORLD_INFO of a settled plan; "" if only torch's rendezvous knows all nodes."""
    if plan.rendezvous is not None:
        return ""
    nodes = {node.host.name: (node.share or node).slots or () for node in plan.nodes}
    return encode_world(nodes, LONGEST)


def start_message(plan: Plan, node: Node, master: str, port: int, credit: int, world: str) -> Start:
    """Return the START message of a node.

    Args:
        plan: the plan, with the slots of every node known.
        node: a node of the plan.
        master: MASTER_ADDR, an address of the first node.
        port: MASTER_PORT.
        credit: bytes of output that the node may send before it needs more credit.
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
"""Fields of the message of a round that differ between nodes."""


def round_frames(start: Start, nodes: Sequence[Node]) -> Iterator[bytes]:
    """Return the ROUND frame of each of these nodes, given the message of any of them.

    The fields that are equal for all nodes are encoded only once.
    """
    common = {name: value for name, value in start._asdict().items() if name not in OWN}
    rest = _encoded(common)[1:]
    for node in nodes:
        own = _encoded(dict(zip(OWN, (node.first_rank, node.slots, node.rank), strict=True)))
        yield frames.pack(frames.ROUND, own[:-1] + b"," + rest)


def _encoded(fields: dict[str, object]) -> bytes:
    return json.dumps(fields, separators=(",", ":")).encode()


def window(nodes: int) -> int:
    """Return the bytes of unprinted output that each node may send, given the number of nodes.

    This bounds the runner's memory to 64 MiB of output however slow its reader is, and still lets
    one node write at the speed of a pipe.
    """
    return max(64 * 1024, min(1024 * 1024, 64 * 1024 * 1024 // nodes))


class StagedStart:
    """Starts the other nodes once the first node has released the master port.

    Until START, the launcher of the first node listens on that port; after START, the store of rank
    0 does. Workers of other nodes must not connect to the launcher.

    Attributes:
        first: the node of rank 0.
    """

    def __init__(self, first: RunNode, send: Callable[[Sequence[RunNode], bytes], None]) -> None:
        self.first = first
        self._send_to = send
        self._held: list[tuple[RunNode, bytes]] = []
        self._begins = False

    def send(self, starts: Sequence[tuple[RunNode, bytes]], *, begins: bool) -> None:
        """Send START to the first node, and hold back the others.

        `begins` says whether the frame starts workers.
        """
        self._begins, ((self.first, frame), *self._held) = begins, starts
        self._send(self.first, frame)

    def _send(self, node: RunNode, frame: bytes) -> None:
        if self._begins:
            node.start()
        self._send_to((node,), frame)

    def on_answer(self, node: RunNode) -> None:
        """Send the held frames once the first node has answered its START, or is lost.

        A job that survives the loss chooses another first node.
        """
        if node is self.first:
            held, self._held = self._held, []
            for other, frame in held:
                self._send(other, frame)

    def remove(self, node: RunNode) -> None:
        """Drop the held START of a node that was released, or has a new node launcher."""
        self._held = [one for one in self._held if one[0] is not node]

    def cancel(self) -> None:
        """Drop all held frames."""
        self._held = []
