"""One node as the runner sees it: its line, what it said, and how far it has come."""

from __future__ import annotations

from ..control import frames
from ..plan import lay_out

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..control.link import Link
    from ..control.messages import Bound, Done, Hello
    from ..plan import Node, Plan


class Peer:
    """A node launcher, from before it is reached until its line is closed.

    Attributes:
        origin: its node as the backend knows it, by whose rank it goes from first to last.
        node: its node in the plan, or in the present round of an elastic job.
        failed: why it cannot take part, "" while it may.
        lost: why it was lost after the start, "" while it was not.
        left: what may still run there, in words, where it was lost and its end was not seen.
        swept: its guard has said that nothing is left.
        offset: what to add to its clock to get the runner's, in seconds; the smallest seen
            difference is the one with the least delay in it.
    """

    def __init__(self, node: Node) -> None:
        self.origin = self.node = node
        self.link: Link | None = None
        self.hello: Hello | None = None
        self.verdicts: list[str] | None = None
        self.done: Done | None = None
        self.bound: Bound | None = None
        self.failed = ""
        self.lost = ""
        self.left = ""
        self.swept = False
        self.offset = float("inf")
        self._owed = 0

    def forget(self) -> None:
        """Begin anew: its node launcher is started once more."""
        self.link = None
        self.hello = None
        self.done = None
        self.bound = None
        self.left = ""
        self.swept = False

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
        self._owed += size
        if self._owed * 4 >= window:
            self.send(frames.pack(frames.CREDIT, self._owed.to_bytes(8, "big")))
            self._owed = 0


def seated(plan: Plan, peers: Sequence[Peer]) -> Plan:
    """Return the plan of these peers alone, in their order; each gets its node in it."""
    found = plan._replace(nodes=lay_out([peer.node.host for peer in peers]))
    for peer, node in zip(peers, found.nodes, strict=True):
        peer.node = node
    return found
