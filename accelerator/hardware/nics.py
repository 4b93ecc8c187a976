"""Network cards according to sysfs, and the nearest ones to a device."""

from __future__ import annotations

import os
import re

from . import pci, sysfs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

# Link layers that NCCL and UCX reach by verbs. EFA's is `Unknown`: it is used through libfabric,
# which ignores the variables of both.
_VERBS = ("InfiniBand", "Ethernet")

# A driver that reports no state counts as up (Linux's Documentation/networking/operstates).
_UP = ("up", "unknown")


class Nic:
    """One network card, or one function of a card that has several.

    Attributes:
        name: the kernel's name: `mlx5_0`, `eth0`.
        kind: `infiniband` for cards with verbs, including RoCE and EFA; `ethernet` for the rest.
        link: the link layer of its first active port, as in sysfs: `InfiniBand`, `Ethernet` for
            RoCE and plain Ethernet, `Unknown` for EFA.
        function: the PCI function; None if it is on another bus.
        ports: the active ports, by number; an Ethernet interface has port 1.
        interfaces: the network interfaces of the PCI function.
    """

    def __init__(
        self,
        *,
        name: str,
        kind: str,
        link: str,
        function: pci.Function | None,
        ports: tuple[int, ...],
        interfaces: tuple[str, ...],
    ) -> None:
        self.name = name
        self.kind = kind
        self.link = link
        self.function = function
        self.ports = ports
        self.interfaces = interfaces

    @property
    def address(self) -> str:
        """The address of its PCI function; empty if it has none."""
        return self.function.address if self.function else ""

    @property
    def node(self) -> int | None:
        """The NUMA node; None if the firmware does not report it."""
        return self.function.node if self.function else None


def read(root: str = "/") -> tuple[Nic, ...]:
    """Return all cards that are devices, so neither `lo` nor a bridge, in order of name.

    Cards with verbs come first; their network interfaces are listed there and not again.
    Sources: Linux's Documentation/ABI/stable/sysfs-class-infiniband, testing/sysfs-class-net.
    """
    plain = [_interface(folder, root) for folder in _devices(root, "net")]
    cards = [_card(folder, root, plain) for folder in _devices(root, "infiniband")]
    twins = {card.address for card in cards if card.address}
    return (*cards, *(nic for nic in plain if nic.address not in twins))


def nearest(
    nics: Iterable[Nic], function: pci.Function, *, kind: str = "infiniband"
) -> tuple[Nic, ...]:
    """Return the cards that are nearest to a device, in order of name.

    Nearest means the fewest bridges between, then an equal NUMA node. If any card is active,
    inactive ones are ignored.
    """
    fitting = [nic for nic in nics if nic.kind == kind]
    fitting = [nic for nic in fitting if nic.ports] or fitting
    least = min((_distance(nic, function) for nic in fitting), default=None)
    near = (nic for nic in fitting if _distance(nic, function) == least)
    return tuple(sorted(near, key=lambda nic: _natural(nic.name)))


def assign(nics: Sequence[Nic], functions: Sequence[pci.Function]) -> tuple[Nic | None, ...]:
    """Return the nearest NIC with verbs for the device of each worker, or None.

    Workers that are equally near to several NICs are spread over them evenly.
    """
    near = [nearest(nics, function) for function in functions]
    shares = dict.fromkeys((nic for some in near for nic in some), 0)
    chosen: list[Nic | None] = [None] * len(near)
    # The workers with the least choice go first; the others can take another NIC.
    for worker in sorted(range(len(near)), key=lambda worker: len(near[worker])):
        nic = chosen[worker] = min(near[worker], key=shares.__getitem__, default=None)
        if nic:
            shares[nic] += 1
    return tuple(chosen)


def variables(nic: Nic, siblings: Iterable[Nic | None] = ()) -> dict[str, str]:
    """Return the variables that keep a worker's UCX and NCCL on a NIC; {} if it has no verbs.

    NCCL needs equal lists in all processes of a machine, or it fails to build its rings
    (https://github.com/NVIDIA/nccl/issues/1478); it chooses the nearest NIC of the list. So the
    list also has the NICs of the `siblings`, which `assign` gave to this machine's workers.
    Sources: NCCL_IB_HCA in NCCL's user guide, UCX_NET_DEVICES in UCX's FAQ.
    """
    own = _ports(nic)
    if not own:
        return {}
    shared = {port for one in (nic, *siblings) if one for port in _ports(one)}
    # One `=` is for the whole list; without it, mlx5_1 would match mlx5_10 as well.
    return {
        "NCCL_IB_HCA": "=" + ",".join(sorted(shared, key=_natural)),
        "UCX_NET_DEVICES": ",".join(own),
    }


def _ports(nic: Nic) -> list[str]:
    if nic.kind != "infiniband" or nic.link not in _VERBS:
        return []
    return [f"{nic.name}:{port}" for port in nic.ports]


def _distance(nic: Nic, function: pci.Function) -> tuple[int, int]:
    steps = pci.bridges_between(nic.function, function) if nic.function else None
    if steps is not None:
        return (0, steps)
    return (1, 0) if nic.node is not None and nic.node == function.node else (2, 0)


def _natural(name: str) -> list[int | str]:
    """Sort mlx5_2 before mlx5_10."""
    return [int(part) if part.isdecimal() else part for part in re.split(r"(\d+)", name)]


def _devices(root: str, group: str) -> list[str]:
    folder = os.path.join(root, "sys/class", group)
    names = sorted(sysfs.names(folder), key=_natural)
    return [f"{folder}/{name}" for name in names if os.path.exists(f"{folder}/{name}/device")]


def _interface(folder: str, root: str) -> Nic:
    name = os.path.basename(folder)
    return Nic(
        name=name,
        kind="ethernet",
        link="Ethernet",
        function=_function(f"{folder}/device", root),
        ports=(1,) if sysfs.line(f"{folder}/operstate") in _UP else (),
        interfaces=(name,),
    )


def _card(folder: str, root: str, plain: Sequence[Nic]) -> Nic:
    function = _function(f"{folder}/device", root)
    ports = sorted(int(name) for name in sysfs.names(f"{folder}/ports") if name.isdecimal())
    active = tuple(port for port in ports if _is_active(f"{folder}/ports/{port}"))
    layers = (f"{folder}/ports/{port}/link_layer" for port in (*active, *ports))
    return Nic(
        name=os.path.basename(folder),
        kind="infiniband",
        link=next(map(sysfs.line, layers), ""),
        function=function,
        ports=active,
        interfaces=tuple(nic.name for nic in plain if function and nic.address == function.address),
    )


def _is_active(folder: str) -> bool:
    return sysfs.line(f"{folder}/state").startswith("4:")


def _function(device: str, root: str) -> pci.Function | None:
    """Return the PCI function of a device or above it: virtio devices are a level below theirs."""
    above = reversed(os.path.realpath(device).split("/"))
    return next(filter(None, (pci.function(name, root) for name in above if ":" in name)), None)
