"""The messages of the full check's programs "device" and "collective"."""

from __future__ import annotations

from ...common.records import NamedTuple
from ...specs.field_types import Count, Port, Rank, Size, register


class Measure(NamedTuple):
    """Make tests on a node.

    Attributes:
        tests: the names of the tests, such as "cpu", in `features.full_check.node_devices`.
        seconds: the approximate length of each measurement.
        workdir: the folder that jobs run in, or "".
        python: the workers', "" for the one that dsrun runs on there.
    """

    tests: tuple[str, ...]
    seconds: float
    workdir: str
    python: str


class Measured(NamedTuple):
    """A rate or a share that was measured: the higher, the better.

    Attributes:
        test: the name of the test, such as "compute"; `features.full_check.runner_device_tests` has
        the units. part: the measured part: "cores", "work", "temp", "device 0". evidence: further
        observations, in words, or "".
    """

    test: str
    part: str
    value: float
    evidence: str


class Broken(NamedTuple):
    """A test that could not be made, or whose result is wrong; the text says why."""

    part: str
    text: str


class Measurements(NamedTuple):
    """The results of the tests on a node, the answer to `Measure`."""

    rows: tuple[Measured, ...]
    broken: tuple[Broken, ...]


class Prepare(NamedTuple):
    """Get ready for collectives, with this Python of the workers, as in `Measure`."""

    python: str


class ReadyForCollectives(NamedTuple):
    """A node can take part in collectives, or it cannot.

    Attributes:
        missing: why torch cannot be used there, or "".
        torch: the version of torch.
        backend: the backend that the node would use: gloo or nccl.
        ranks: the number of processes that it would start.
        port: the port on which its store listens.
        addresses: its addresses.
    """

    missing: str
    torch: str = ""
    backend: str = ""
    ranks: Rank = 0
    port: Port = 0
    addresses: tuple[str, ...] = ()


class JoinGroup(NamedTuple):
    """Form a group with other nodes, and take part in its reductions.

    Attributes:
        place: the place of this node among all.
        ranks: the number of processes on each node.
        addresses: the addresses of the node at place 0, whose store all use.
        port: the port of that store.
    """

    place: Rank
    ranks: tuple[Rank, ...]
    addresses: tuple[str, ...]
    port: Port


class Pair(NamedTuple):
    """Two nodes, by place, that reduce in this round, at the same time as its other pairs."""

    round: Count
    one: Rank
    other: Rank


class Pairs(NamedTuple):
    """Reduce in pairs; the answer is as to `JoinGroup`."""

    pairs: tuple[Pair, ...]


class Reduced(NamedTuple):
    """An all-reduce of some nodes, as one of them saw it.

    Attributes:
        places: the nodes, by place.
        latency: seconds of the fastest small one.
        bandwidth: bytes per second of the fastest large one.
        wrong: the number of wrong elements of the result there.
    """

    places: tuple[Rank, ...]
    latency: float
    bandwidth: float
    wrong: Size


class Reductions(NamedTuple):
    """The reductions of a node; `failed` is the reason for missing ones, or ""."""

    rows: tuple[Reduced, ...]
    failed: str


register(Measured, Broken, Pair, Reduced)
