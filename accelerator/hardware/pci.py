"""PCI functions as sysfs lists them: what they are, where they hang, and how far they are apart."""

from __future__ import annotations

import os
import re
from itertools import takewhile

from . import sysfs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

_ADDRESS = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]", re.IGNORECASE)


class Function:
    """One PCI function.

    Attributes:
        address: where it is, as in `0000:17:00.0`.
        vendor: whose it is, by the PCI-SIG's number.
        kind: its class code, 24 bits: 0x030200 for a 3D controller.
        node: the NUMA node it hangs from; None where firmware does not say (sysfs has -1).
        path: the host bridge, the bridges below it, and itself: what it shares with another
            function from the left on is what data between the two need not leave.
    """

    def __init__(
        self, *, address: str, vendor: int, kind: int, node: int | None, path: tuple[str, ...]
    ) -> None:
        self.address = address
        self.vendor = vendor
        self.kind = kind
        self.node = node
        self.path = path


def functions(root: str = "/", vendor: int | None = None) -> tuple[Function, ...]:
    """Return all there are, or one vendor's, in order of address; () where there is no PCI.

    Source: Linux's Documentation/ABI/testing/sysfs-bus-pci.
    """
    folder = os.path.join(root, "sys/bus/pci/devices")
    names = sorted(sysfs.names(folder))
    found = (function(name, root) for name in names if _is_of(f"{folder}/{name}", vendor))
    return tuple(one for one in found if one)


def function(address: str, root: str = "/") -> Function | None:
    """Return the function at an address (a domain of eight digits will do), None for none."""
    folder = os.path.join(root, "sys/bus/pci/devices", normal(address))
    kind = _number(f"{folder}/class")
    if kind is None:
        return None
    node = _number(f"{folder}/numa_node")
    return Function(
        address=normal(address),
        vendor=_number(f"{folder}/vendor") or 0,
        kind=kind,
        node=node if node is not None and node >= 0 else None,
        path=tuple(_path(os.path.realpath(folder))),
    )


def normal(address: str) -> str:
    """Write an address as sysfs does, with four digits of domain or more.

    NVML has eight of them, in capitals. Only few domains need a fifth (Intel's VMD).
    """
    domain, _, rest = address.strip().lower().partition(":")
    return f"{domain.lstrip('0'):0>4}:{rest}"


def bridges_between(one: Function, other: Function) -> int | None:
    """Return how many steps up and down the tree lead from one to the other; None: by the CPU."""
    pairs = zip(one.path, other.path, strict=False)
    common = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
    return len(one.path) + len(other.path) - 2 * common if common else None


def _is_of(folder: str, vendor: int | None) -> bool:
    return vendor is None or _number(f"{folder}/vendor") == vendor


def _path(folder: str) -> Iterator[str]:
    for name in folder.split("/"):
        if name.startswith("pci") or _ADDRESS.fullmatch(name):
            yield name


def _number(path: str) -> int | None:
    """What a file of sysfs says, which writes `-1`, `17` and `0x10de`; None where it is silent."""
    try:
        return int(sysfs.text(path), 0)
    except ValueError:
        return None
