"""A node in one run: its place there, what it has said, and how far it has come."""

from __future__ import annotations

from ...common.errors import UsageError
from ...control import frames
from ...specs.plan import lay_out

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...control.messages import Done, Hello, NodeBindings
    from ...specs.plan import Node, Plan
    from ..fleet.fleet import Fleet
    from ..fleet.node_connection import NodeConnection

OVERDRAFT = 1 << 20
"""Bytes of output beyond what was granted: a node reads a whole block while it has any credit."""


class RunNode:
    """What a run knows of one of its nodes.

    Attributes:
        connection: to its node launcher.
        number: its place among the nodes of the run, by which it goes from first to last.
        node: its place in the plan, or in the present round of an elastic job.
        verdicts: for each address of the master "", or why it is not reached.
        failed: why it cannot take part, "" while it may.
        lost: why it was lost after the start, "" while it was not.
        left: what may still run there, in words, where it was lost and its end was not seen.
        swept: its guard has said that nothing is left.
    """

    def __init__(self, connection: NodeConnection, node: Node, number: int) -> None:
        self.connection = connection
        self.number = number
        self.node = node
        self.hello: Hello | None = None
        self.verdicts: Sequence[str] = ()
        self.done: Done | None = None
        self.bound: NodeBindings | None = None
        self.failed = self.lost = self.left = ""
        self.swept = False
        self._unprinted = self._owed = 0
        self._ranks: set[int] = set()
        self._ends = 0

    @property
    def name(self) -> str:
        """The host's name, as the user wrote it."""
        return self.node.host.name

    @property
    def settled(self) -> bool:
        """Whether it has said HELLO or failed to."""
        return bool(self.hello or self.failed)

    @property
    def over(self) -> bool:
        """Whether nothing more is expected of its part of the job."""
        return bool(self.done or self.lost)

    def assign(self, node: Node) -> None:
        """Give it its place in the job, or in another round of it."""
        self.node = node
        self._ranks.update(worker.rank for worker in node.workers())
        self._ends = 0

    def forget(self) -> None:
        """Begin anew: its node launcher is started once more."""
        self.hello = self.done = self.bound = None
        self.left = ""
        self.swept = False
        self._unprinted = 0

    def send(self, frame: bytes) -> None:
        """Send a frame, if there is a connection."""
        self.connection.send(frame)

    def check_rank(self, rank: int) -> None:
        """Check that a rank is one of its own; what those of a former round say may come late.

        Raises:
            BadFrame: it is not.
        """
        if rank not in self._ranks:
            raise frames.BadFrame(f"rank {rank} is none of its own")

    def check_end(self, rank: int) -> None:
        """Check that a rank of its own may have ended, those of the round before included.

        Raises:
            BadFrame: it cannot have.
        """
        self.check_rank(rank)
        self._ends += 1
        if self._ends > 2 * len(self._ranks):
            raise frames.BadFrame(f"{self._ends} ends of {len(self._ranks)} workers")

    def on_output(self, size: int, window: int) -> None:
        """Count output that has come.

        Raises:
            BadFrame: it is more than what was granted.
        """
        self._unprinted += size
        if self._unprinted > window + OVERDRAFT:
            raise frames.BadFrame(f"{self._unprinted} bytes of output where {window} were granted")

    def on_printed(self, size: int, window: int) -> None:
        """Count output that was printed; grant it back in pieces of a quarter window."""
        self._unprinted -= size
        self._owed += size
        if self._owed * 4 >= window:
            self.send(frames.pack_count(frames.CREDIT, self._owed))
            self._owed = 0


def assigned(plan: Plan, nodes: Sequence[RunNode]) -> Plan:
    """Return the plan of these nodes alone, in their order; each gets its place in it."""
    found = plan._replace(nodes=lay_out([one.node.host for one in nodes]))
    for one, node in zip(nodes, found.nodes, strict=True):
        one.assign(node)
    return found


def members(plan: Plan, fleet: Fleet) -> list[RunNode]:
    """Return the nodes of a plan that the fleet has: of some jobs this process has but one.

    Raises:
        UsageError: it has none of them.
    """
    found = [(at, node) for node in plan.nodes if (at := fleet.find(node))]
    if not found:
        names = ", ".join(node.host.name for node in plan.nodes)
        raise UsageError(f"{names}: not among the connected nodes: {fleet.names}")
    return [RunNode(at, node, number) for number, (at, node) in enumerate(found)]
