"""Networks in which the addresses that gloo and NCCL take by default lead nowhere.

Each of these is there inside a `with` block. The hosts' own network stays as it is, so that ssh and
the master's address work, but for `only_ipv6`.
"""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from contextlib import AbstractContextManager

    from .hosts import Cluster
    from .machines import Host

    Change = Callable[[Cluster], AbstractContextManager[None]]


@contextmanager
def names(cluster: Cluster, own: Mapping[str, str], usual: Mapping[str, str]) -> Iterator[None]:
    """Names stand for what is usual, but on some machines for something else: their own names."""
    with ExitStack() as stack:
        for machine in cluster.machines:
            mine = {machine.name: own[machine.name]} if machine.name in own else {}
            stack.enter_context(machine.names({**usual, **mine}))
        yield


def addresses(cluster: Cluster) -> dict[str, str]:
    """Return what names usually stand for."""
    return {machine.name: machine.address for machine in cluster.machines}


@contextmanager
def renamed(host: Host, card: str) -> Iterator[None]:
    """The network card of a host has another name."""
    _rename(host, "eth0", card)
    try:
        yield
    finally:
        _rename(host, card, "eth0")


def _rename(host: Host, old: str, new: str) -> None:
    host.ip(f"link set {old} down", f"link set {old} name {new}", f"link set {new} up")


@contextmanager
def second_network(cluster: Cluster, cards: Mapping[str, str]) -> Iterator[dict[str, str]]:
    """Another network, with cards of these names on these hosts; yields the hosts' addresses."""
    cluster.switch("link add other type bridge", "link set other up")
    addresses = {}
    for number, (name, card) in enumerate(cards.items(), 1):
        addresses[name] = f"10.88.0.{number}"
        cluster.host(name).ip(
            f"link add {card} type veth peer name other{number} netns switch",
            f"address add {addresses[name]}/24 dev {card}",
            f"link set {card} up",
        )
        cluster.switch(f"link set other{number} master other up")
    try:
        yield addresses
    finally:
        for name, card in cards.items():
            cluster.host(name).ip(f"link delete {card}")
        cluster.switch("link delete other")


@contextmanager
def decoys(cluster: Cluster) -> Iterator[str]:
    """Each host has a docker0 with the same address, which is yielded."""
    for host in cluster.hosts:
        host.ip(
            "link add docker0 type bridge",
            "address add 172.17.0.1/16 dev docker0",
            "link set docker0 up",
        )
    try:
        yield "172.17.0.1"
    finally:
        for host in cluster.hosts:
            host.ip("link delete docker0")


@contextmanager
def only_ipv6(cluster: Cluster) -> Iterator[dict[str, str]]:
    """No machine has an IPv4 address; yields what names stand for."""
    addresses = {m.name: f"fd00:77::{number}" for number, m in enumerate(cluster.machines, 1)}
    for machine in cluster.machines:
        machine.ip(f"address add {addresses[machine.name]}/64 dev eth0 nodad")
        machine.ip("-4 address flush dev eth0")
    try:
        yield addresses
    finally:
        for machine in cluster.machines:
            machine.ip(f"address add {machine.address}/16 dev eth0")
            machine.ip(f"address delete {addresses[machine.name]}/64 dev eth0")
