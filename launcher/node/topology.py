"""The physical cores and the memory that this process may use, as sysfs describes them."""

from __future__ import annotations

import os
import re

from ..values import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

# `core_cpus_list` since Linux 5.3; the other is its older name.
_SIBLINGS = ("core_cpus_list", "thread_siblings_list")

_RANGE = re.compile(r"([0-9]+)(?:-([0-9]+))?")
_MEM_TOTAL = re.compile(r"MemTotal:\s+([0-9]+)")
_MEMS_ALLOWED = re.compile(r"^Mems_allowed_list:(.*)$", re.MULTILINE)


class Core(NamedTuple):
    """One physical core.

    Attributes:
        cpus: its hardware threads that may be used, ascending.
        node: its NUMA node's id.
        package: its socket's id.
    """

    cpus: tuple[int, ...]
    node: int
    package: int


class Topology(NamedTuple):
    """What there is to share among the workers.

    Attributes:
        cores: ascending by first cpu; every cpu that may be used is in exactly one.
        memory_nodes: ids of the NUMA nodes that hold memory which may be used, with or without
            cpus of their own.
    """

    cores: tuple[Core, ...]
    memory_nodes: frozenset[int]


def numa_nodes(topology: Topology) -> int:
    """How many NUMA nodes have a cpu that may be used."""
    return len({core.node for core in topology.cores})


def read_topology(
    root: str = "/sys", allowed: Collection[int] = (), proc: str = "/proc"
) -> Topology:
    """Read the cores of the `allowed` cpus; by default those this process may run on.

    Where containers hide files, less is known and nothing fails: a cpu without topology is a core
    of its own, one without a NUMA node is on node 0, and no node's memory is promised.
    Source: Linux's Documentation/admin-guide/cputopology.rst and ABI/stable/sysfs-devices-node.
    """
    usable = _online(root, allowed or os.sched_getaffinity(0))
    nodes = _nodes(root)
    home = {cpu: node for node, folder in nodes.items() for cpu in _cpus(f"{folder}/cpulist")}
    cores = tuple(
        Core(cpus, home.get(cpus[0], 0), _package(root, cpus[0])) for cpus in _cores(root, usable)
    )
    return Topology(cores, _memory_nodes(nodes, proc))


def _online(root: str, allowed: Collection[int]) -> set[int]:
    """Leave out the cpus that are switched off.

    `cpu/online` is not asked: lxcfs may show a container a made-up list there. Nor is a list
    believed that would leave no cpu at all.
    """
    off = {cpu for cpu in allowed if _read(f"{_cpu(root, cpu)}/online").strip() == "0"}
    return set(allowed) - off or set(allowed)


def _cores(root: str, usable: set[int]) -> Iterator[tuple[int, ...]]:
    """Group the cpus by core; each belongs to one group, whatever the files say."""
    left = set(usable)
    for cpu in sorted(usable):
        if cpu in left:
            core = {cpu} | (_siblings(root, cpu) & left)
            left -= core
            yield tuple(sorted(core))


def _siblings(root: str, cpu: int) -> set[int]:
    for name in _SIBLINGS:
        if cpus := _cpus(f"{_cpu(root, cpu)}/topology/{name}"):
            return cpus
    return set()


def _package(root: str, cpu: int) -> int:
    text = _read(f"{_cpu(root, cpu)}/topology/physical_package_id").strip()
    # Firmware that does not know says -1.
    return int(text) if text.isdecimal() else 0


def _cpu(root: str, cpu: int) -> str:
    return f"{root}/devices/system/cpu/cpu{cpu}"


def _nodes(root: str) -> dict[int, str]:
    """The NUMA nodes' folders by id; ids may have gaps."""
    try:
        entries = list(os.scandir(f"{root}/devices/system/node"))
    except OSError:
        return {}
    found = ((re.fullmatch(r"node([0-9]+)", entry.name), entry.path) for entry in entries)
    return {int(name[1]): path for name, path in found if name}


def _memory_nodes(nodes: dict[int, str], proc: str) -> frozenset[int]:
    line = _MEMS_ALLOWED.search(_read(f"{proc}/self/status"))
    allowed = _numbers(line[1]) if line else set(nodes)
    return frozenset(node for node, folder in nodes.items() if node in allowed and _memory(folder))


def _memory(folder: str) -> int:
    """A NUMA node's memory in KiB."""
    total = _MEM_TOTAL.search(_read(f"{folder}/meminfo"))
    return int(total[1]) if total else 0


def _cpus(path: str) -> set[int]:
    return _numbers(_read(path))


def _numbers(text: str) -> set[int]:
    """What the kernel writes as `0-3,8`."""
    ranges = ((int(first), int(last or first)) for first, last in _RANGE.findall(text))
    return {number for first, last in ranges for number in range(first, last + 1)}


def _read(path: str) -> str:
    """A small file's text; empty where it cannot be read."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return ""
    try:
        return os.read(fd, 1 << 16).decode("ascii", "replace")
    except OSError:
        return ""
    finally:
        os.close(fd)
