"""The types of what steps of the full check have measured, as `dsrun-check --json` prints it."""

from __future__ import annotations

from typing import Annotated, TypeAlias, TypedDict

from ...common.json_types import one_of
from .runner_device_tests import TESTS


class FailedLink(TypedDict):
    """A link that could not be measured.

    Attributes:
        nodes: the calling node, and the other node.
        failed: the reason why it could not be measured.
    """

    nodes: list[str]
    failed: str


class MeasuredLink(TypedDict):
    """A link that was measured.

    Attributes:
        nodes: the calling node, and the other node.
        address: the address of the other node.
        best_s: the shortest round trip in seconds.
        median_s: the median of the round trips in seconds.
        out: the fastest stream to the other node, in bytes per second.
        out_free: bytes per second to the other node without the time in which an end had no core to
            run on.
        back: the fastest stream from it, in bytes per second.
        back_free: the same as `out_free` from the other node, in bytes per second.
        sent: segments that the node has sent, with those sent again.
        resent: segments that it has sent again.
        back_sent: segments that the other node has sent, with those sent again.
        back_resent: segments that the other node has sent again.
    """

    nodes: list[str]
    address: str
    best_s: float
    median_s: float
    out: float
    out_free: float
    back: float
    back_free: float
    sent: int
    resent: int
    back_sent: int
    back_resent: int


LinkRow: TypeAlias = MeasuredLink | FailedLink


class NetworkJson(TypedDict):
    """The measurements of the step `network`.

    Attributes:
        links: all links that were measured.
        links_alone: those that were measured again.
    """

    links: list[LinkRow]
    links_alone: list[LinkRow]


class Value(TypedDict):
    """The result of one test of a node.

    Attributes:
        node: where.
        test: which test.
        part: the measured part: cores, work, temp, or a device.
        value: the result, in its unit: the higher, the better.
        unit: the unit of the value.
    """

    node: str
    test: str
    part: str
    value: float
    unit: Annotated[str, one_of(sorted({one.unit for one in TESTS.values()}))]


class DevicesJson(TypedDict):
    """The measurements of the step `devices`.

    Attributes:
        values: the values measured on nodes, as docs/full_check.md describes them.
    """

    values: list[Value]


class AllReduce(TypedDict):
    """All-reduces of some nodes.

    Attributes:
        nodes: the nodes of the group.
        latency_s: the shortest small all-reduce in seconds.
        bandwidth_bytes_per_s: of the fastest large one, in bytes per second.
        wrong: how many elements of the sum were wrong.
    """

    nodes: list[str]
    latency_s: float
    bandwidth_bytes_per_s: float
    wrong: int


class Collectives(TypedDict):
    """The measurements of the step `collectives`.

    Attributes:
        backend: the backend of torch: gloo or nccl; "" without torch.
        all: all nodes together.
        pairs: pairs of nodes.
    """

    backend: str
    all: list[AllReduce]
    pairs: list[AllReduce]


MeasuredValues: TypeAlias = NetworkJson | DevicesJson | Collectives
