"""The messages of the full check about links between nodes, packed by `control/messages`."""

from __future__ import annotations

from ...common.records import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...specs.field_types import Name, Port, Size


class Listen(NamedTuple):
    """Accept connections of other nodes.

    Attributes:
        token: a secret for callers, unique to this node: it also proves the node's identity.
        peers: names of other nodes, for the addresses on the routes to them.
    """

    token: str
    peers: tuple[Name, ...]


class Listening(NamedTuple):
    """The address on which a node accepts connections: the one most likely to be reachable."""

    port: Port
    addresses: tuple[Name, ...]


class MeasureLink(NamedTuple):
    """Measure the link to another node.

    Attributes:
        addresses: the addresses of the other node, to be tried in this order.
        token: the other node's.
        pings: the most round trips.
        streams: the number of streams each way; the fastest counts.
        seconds: the length of each stream, and the limit for all round trips.
    """

    addresses: tuple[Name, ...]
    port: Port
    token: str
    pings: Size
    streams: Size
    seconds: float


class Link(NamedTuple):
    """One measurement of a link.

    Attributes:
        address: the address of the other node.
        best_s: the shortest round trip in seconds.
        median_s: the median of the round trips in seconds.
        out: the fastest stream to the other node, in bytes per second.
        out_free: this speed without the time in which an end had no core to run on.
        back: the fastest stream from the other node, in bytes per second.
        back_free: this speed without the time in which an end had no core to run on.
        sent: segments that this node has sent, including retransmitted ones.
        resent: segments that this node has retransmitted.
        back_sent: segments that the other node has sent, including retransmitted ones.
        back_resent: segments that the other node has retransmitted.
    """

    address: Name
    best_s: float
    median_s: float
    out: float
    out_free: float
    back: float
    back_free: float
    sent: Size
    resent: Size
    back_sent: Size
    back_resent: Size
