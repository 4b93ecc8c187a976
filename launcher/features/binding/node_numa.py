"""The NUMA nodes of this machine, as sysfs describes them.

Source: Linux's Documentation/ABI/stable/sysfs-devices-node and admin-guide/mm/numaperf.rst.
"""

from __future__ import annotations

import re

from ...common.cpu_list import kernels_list
from ...common.records import NamedTuple
from . import node_sysfs as sysfs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

_NODE = re.compile(r"node([0-9]+)")
_MEM_TOTAL = re.compile(r"MemTotal:\s+([0-9]+)")
_MEMS_ALLOWED = re.compile(r"^Mems_allowed_list:(.*)$", re.MULTILINE)


class Numa(NamedTuple):
    """The NUMA nodes; ids may have gaps.

    Attributes:
        home: the node of each cpu; the lowest one if several list it.
        twins: nodes whose cpus all belong to another node, and that node: `numa=fake=` divides a
            node's memory, and lists all its cpus in every part.
        memory: nodes with memory that may be used.
        fast: for nodes with cpus, the nodes without cpus whose memory they read faster than their
            own.
        near: for each node the nodes with cpus, the nearest first.
    """

    home: Mapping[int, int]
    twins: Mapping[int, int]
    memory: frozenset[int]
    fast: Mapping[int, tuple[int, ...]]
    near: Mapping[int, tuple[int, ...]]


def read_numa(root: str, proc: str) -> Numa:
    """Read the nodes; a missing folder means none."""
    folder = f"{root}/devices/system/node"
    nodes = _nodes(folder)
    cpus = {node: sysfs.numbers(f"{path}/cpulist") for node, path in nodes.items()}
    home: dict[int, int] = {}
    for node, listed in cpus.items():
        home.update(dict.fromkeys(listed - home.keys(), node))
    homes = set(home.values())
    return Numa(
        home,
        {node: home[min(listed)] for node, listed in cpus.items() if listed and node not in homes},
        usable := _memory_nodes(nodes, proc),
        _fast(folder, nodes, homes, sorted(node for node in usable if not cpus[node])),
        {node: _near(path, list(nodes), homes) for node, path in nodes.items()},
    )


def memory(root: str) -> dict[int, int]:
    """Return the KiB of memory by node, for nodes with memory."""
    sizes = {node: _memory(path) for node, path in _nodes(f"{root}/devices/system/node").items()}
    return {node: size for node, size in sizes.items() if size}


def _nodes(folder: str) -> dict[int, str]:
    ids = (int(found[1]) for name in sysfs.names(folder) if (found := _NODE.fullmatch(name)))
    return {node: f"{folder}/node{node}" for node in sorted(ids)}


def _memory_nodes(nodes: Mapping[int, str], proc: str) -> frozenset[int]:
    line = _MEMS_ALLOWED.search(sysfs.text(f"{proc}/self/status"))
    allowed = kernels_list(line[1]) if line else set(nodes)
    return frozenset(node for node, path in nodes.items() if node in allowed and _memory(path))


def _memory(path: str) -> int:
    """Return a node's memory in KiB."""
    total = _MEM_TOTAL.search(sysfs.text(f"{path}/meminfo"))
    return int(total[1]) if total else 0


def _fast(
    folder: str, nodes: Mapping[int, str], homes: set[int], bare: list[int]
) -> dict[int, tuple[int, ...]]:
    """Return, for nodes with cpus, the `bare` nodes whose memory they read faster than their own.

    A device's own memory (Grace's GPUs) is left out: its node is also a generic initiator.
    """
    if not bare:
        return {}
    fast: dict[int, tuple[int, ...]] = {}
    devices = sysfs.numbers(f"{folder}/has_generic_initiator")
    for node in (node for node in bare if node not in devices):
        bandwidth, initiators = _access(nodes[node])
        for user in sorted(initiators & homes):
            if bandwidth > (_access(nodes[user])[0] or bandwidth):
                fast[user] = (*fast.get(user, ()), node)
    return fast


def _access(path: str) -> tuple[int, set[int]]:
    """Return a node's nearest initiators, and the MB/s at which they read it first (0: unknown)."""
    folder = f"{path}/access0/initiators"
    matches = filter(None, map(_NODE.fullmatch, sysfs.names(folder)))
    return sysfs.number(f"{folder}/read_bandwidth") or 0, {int(name[1]) for name in matches}


def _near(path: str, nodes: list[int], homes: set[int]) -> tuple[int, ...]:
    """Return the nodes with cpus by their distance from this one, lower ids first among equals.

    The file lists the distance to each node that is online, in order of id.
    """
    distances = map(int, re.findall(r"[0-9]+", sysfs.text(f"{path}/distance")))
    row = sorted(zip(distances, nodes, strict=False))
    return tuple(node for _, node in row if node in homes)
