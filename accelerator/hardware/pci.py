"""PCI functions as sysfs lists them: their kind, their place in the tree, and their distance."""

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
        address: its address, as in `0000:17:00.0`.
        vendor: the PCI-SIG's number of its vendor.
        kind: its class code, 24 bits: 0x030200 for a 3D controller.
        node: its NUMA node; None if the firmware does not report it (sysfs has -1).
        path: the host bridge, the bridges below it, and the function itself. Data between two
            functions goes no higher than the last element that their paths share.
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
    """Return all functions, or one vendor's, in order of address; () without PCI.

    Source: Linux's Documentation/ABI/testing/sysfs-bus-pci.
    """
    folder = os.path.join(root, "sys/bus/pci/devices")
    names = sorted(sysfs.names(folder))
    matching = (function(name, root) for name in names if _is_of(f"{folder}/{name}", vendor))
    return tuple(one for one in matching if one)


def function(address: str, root: str = "/") -> Function | None:
    """Return the function at an address (a domain may have eight digits), or None."""
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

    NVML writes eight of them, in capitals. Only a few domains need a fifth (Intel's VMD).
    """
    domain, _, rest = address.strip().lower().partition(":")
    return f"{domain.lstrip('0'):0>4}:{rest}"


def bridges_between(one: Function, other: Function) -> int | None:
    """Return the number of tree steps between two functions; None: only through the CPU."""
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
    """Return the number in a file of sysfs (`-1`, `17`, `0x10de`), or None."""
    try:
        return int(sysfs.text(path), 0)
    except ValueError:
        return None
