"""Cables between virtual hosts that delay packets or lose them, or carry few bytes per second.

A bad cable is two TAP devices and a process that carries the packets between them: `forwarder.py`.
It carries less than a virtual Ethernet cable, so everything on it is also slow. A slow cable is a
virtual Ethernet cable with a token bucket (tc-tbf(8)).
"""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from .machines import SUBNET

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .hosts import Cluster
    from .machines import Host

FORWARDER = Path(__file__).with_name("forwarder.py")

CARDS = ("02:77:01:00:00:01", "02:77:01:00:00:02")
"""Addresses of devices that no other host sees."""


class Cable:
    """A cable that can be made bad.

    Attributes:
        FORWARD: the direction from the first end to the second one.
        BACKWARD: the other one.
    """

    FORWARD, BACKWARD = 0, 1

    def __init__(self, *ends: tuple[str, str, str]) -> None:
        """Lay it between two devices: the name, the address and the namespace of each.

        Raises:
            OSError: there are no TAP devices here.
        """
        argv = [sys.executable, str(FORWARDER), *(word for end in ends for word in end)]
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(argv, stdin=pipe, stdout=pipe, stderr=pipe, text=True)
        assert self._process.stdout
        if self._process.stdout.readline() != "up\n":
            raise OSError(f"no cable: {self._process.communicate()[1]}")

    def set(self, delay: float = 0.0, loss: float = 0.0, only: int | None = None) -> None:
        """Change it.

        Args:
            delay: seconds that a packet takes.
            loss: the share of packets that are lost, by chance.
            only: the direction; None for both, and the other direction is left as it is.
        """
        assert self._process.stdin
        assert self._process.stdout
        order = {"delay": delay, "loss": loss, "only": [0, 1] if only is None else [only]}
        self._process.stdin.write(f"{json.dumps(order)}\n")
        self._process.stdin.flush()
        self._process.stdout.readline()

    def close(self) -> None:
        """Take it away, with both devices."""
        self._process.communicate()


@contextmanager
def cable_to(cluster: Cluster, name: str) -> Iterator[Cable]:
    """A cable between a host and the switch, in place of its own one."""
    host, supply = cluster.host(name), cluster.supply
    cable = Cable(("cable", host.card, host.network), (f"cable{name}", CARDS[0], supply.network))
    with closing(cable):
        supply.ip(f"link set {host.port} nomaster", f"link set cable{name} master switch up")
        # Two routes that are narrower than that of the card.
        halves = [f"route add {one} dev cable src {host.address}" for one in SUBNET.subnets()]
        host.ip("link set cable up", *halves)
        try:
            yield cable
        finally:
            supply.ip(f"link set {host.port} master switch")


@contextmanager
def cable_between(cluster: Cluster, one: str, other: str) -> Iterator[Cable]:
    """A cable from one host to another, over which their packets to each other go."""
    hosts = [cluster.host(name) for name in (one, other)]
    cable = Cable(*((f"to{hosts[1 - at].name}", CARDS[at], hosts[at].network) for at in (0, 1)))
    with closing(cable):
        _route(*hosts)
        yield cable


@contextmanager
def slow_card(cluster: Cluster, name: str, rate: str) -> Iterator[None]:
    """A host that can neither send nor receive more: `rate` as tc(8) has it, such as `20mbit`."""
    host, supply = cluster.host(name), cluster.supply
    supply.run("tc", "qdisc", "add", "dev", host.port, *bucket(rate).split())
    try:
        host.administer(f"tc qdisc add dev eth0 {bucket(rate)}")
        yield
    finally:
        host.administer("tc qdisc del dev eth0 root")
        supply.run("tc", "qdisc", "del", "dev", host.port, "root")


@contextmanager
def slow_link(cluster: Cluster, one: str, other: str, rate: str) -> Iterator[None]:
    """A link between two hosts on which the first one sends no more."""
    hosts = [cluster.host(name) for name in (one, other)]
    ends = [f"to{hosts[1 - at].name} netns {hosts[at].pid}" for at in (0, 1)]
    cluster.supply.ip(f"link add {ends[0]} type veth peer name {ends[1]}")
    try:
        _route(*hosts)
        hosts[0].administer(f"tc qdisc add dev to{other} {bucket(rate)}")
        yield
    finally:
        hosts[0].ip(f"link delete to{other}")


def _route(one: Host, other: Host) -> None:
    """Have the packets between two hosts go over the devices that are named for the other end."""
    for host, end in ((one, other), (other, one)):
        host.ip(
            f"link set to{end.name} up",
            f"route add {end.address}/32 dev to{end.name} src {host.address}",
        )


def bucket(rate: str) -> str:
    """The words of tc that limit a device."""
    return f"root tbf rate {rate} burst 64kb latency 50ms"
