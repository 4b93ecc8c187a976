"""One node as the runner sees it: its line, what it said, and how far it has come."""

from __future__ import annotations

from ...control import frames
from ...specs.plan import lay_out

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...control.link import Link
    from ...control.messages import Bound, Done, Hello
    from ...specs.plan import Node, Plan


OVERDRAFT = 1 << 20
"""Bytes of output beyond what was granted: a node reads a whole block while it has any credit."""


MOST_NOTES = 1000
"""Lines for the user that a node may send between two beats of the runner's."""


class Peer:
    """A node launcher, from before it is reached until its line is closed.

    Attributes:
        origin: its node as the backend knows it, by whose rank it goes from first to last.
        node: its node in the plan, or in the present round of an elastic job.
        failed: why it cannot take part, "" while it may.
        lost: why it was lost after the start, "" while it was not.
        left: what may still run there, in words, where it was lost and its end was not seen.
        swept: its guard has said that nothing is left.
        notes: lines for the user that it has sent since the last beat.
        unpaid: bytes of its output that have come and were not granted back.
        offset: what to add to its clock to get the runner's, in seconds; the smallest seen
            difference is the one with the least delay in it.
    """

    def __init__(self, node: Node) -> None:
        self.origin = self.node = node
        self.link: Link | None = None
        self.hello: Hello | None = None
        self.verdicts: Sequence[str] = ()
        self.done: Done | None = None
        self.bound: Bound | None = None
        self.failed = ""
        self.lost = ""
        self.left = ""
        self.swept = False
        self.offset = float("inf")
        self.unpaid = 0
        self._owed = 0
        self._ranks: set[int] = set()
        self._ends = 0
        self.notes = 0

    def seat(self, node: Node) -> None:
        """Give it its place in the job, or in another round of it."""
        self.node = node
        self._ranks.update(worker.rank for worker in node.workers())
        self._ends = 0

    def check_rank(self, rank: int) -> None:
        """See that a rank is one of its own; what those of a former round say may come late.

        Raises:
            BadFrame: it is not.
        """
        if rank not in self._ranks:
            raise frames.BadFrame(f"rank {rank} is none of its own")

    def check_end(self, rank: int) -> None:
        """See that a rank of its own may have ended, those of the round before included.

        Raises:
            BadFrame: it cannot have.
        """
        self.check_rank(rank)
        self._ends += 1
        if self._ends > 2 * len(self._ranks):
            raise frames.BadFrame(f"{self._ends} ends of {len(self._ranks)} workers")

    def noted(self) -> None:
        """Count a line for the user.

        Raises:
            BadFrame: there were too many since the last beat.
        """
        self.notes += 1
        if self.notes > MOST_NOTES:
            raise frames.BadFrame(f"more than {MOST_NOTES} notes at a time")

    def wrote(self, size: int, window: int) -> None:
        """Count output that has come.

        Raises:
            BadFrame: it is more than what was granted.
        """
        self.unpaid += size
        if self.unpaid > window + OVERDRAFT:
            raise frames.BadFrame(f"{self.unpaid} bytes of output where {window} were granted")

    def forget(self) -> None:
        """Begin anew: its node launcher is started once more."""
        self.link = None
        self.hello = None
        self.done = None
        self.bound = None
        self.left = ""
        self.swept = False
        self.unpaid = 0

    def hang_up(self) -> None:
        """Close its line, if it stands: a node launcher without one ends all that it has."""
        if self.link is not None:
            self.link.close()
            self.link = None

    @property
    def number(self) -> int:
        """The rank by which its backend knows it."""
        return self.origin.rank

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

    def send(self, frame: bytes) -> None:
        """Send a frame, if its line stands."""
        if self.link is not None:
            self.link.send(frame)

    def count_silence(self, now: float) -> None:
        """Count its silence from now on."""
        if self.link is not None:
            self.link.heard = now

    def saw_clock(self, clock: float, now: float) -> None:
        """Learn from a message that carries the node's clock."""
        self.offset = min(self.offset, now - clock)

    def took(self, size: int, window: int) -> None:
        """Count output that was printed; grant it back in pieces of a quarter window."""
        self.unpaid -= size
        self._owed += size
        if self._owed * 4 >= window:
            self.send(frames.pack_count(frames.CREDIT, self._owed))
            self._owed = 0


def seated(plan: Plan, peers: Sequence[Peer]) -> Plan:
    """Return the plan of these peers alone, in their order; each gets its node in it."""
    found = plan._replace(nodes=lay_out([peer.node.host for peer in peers]))
    for peer, node in zip(peers, found.nodes, strict=True):
        peer.seat(node)
    return found
