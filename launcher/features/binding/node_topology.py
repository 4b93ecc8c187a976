"""The usable physical cores and memory of this process, according to sysfs.

Lists that many cpus share are read once for all of them: a machine may have hundreds.
Source: Linux's Documentation/admin-guide/cputopology.rst, ABI/stable/sysfs-devices-system-cpu,
ABI/testing/sysfs-devices-system-cpu, and tools/perf/Documentation/intel-hybrid.txt.
"""

from __future__ import annotations

import os

from ...common.records import NamedTuple
from . import node_sysfs as sysfs
from .node_numa import read_numa

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

# The first of each is its name since Linux 5.3.
_SIBLINGS = ("core_cpus_list", "thread_siblings_list")
_PACKAGE = ("package_cpus_list", "core_siblings_list")

# Intel's kinds of cores, the fastest first.
_HYBRID = ("cpu_core", "cpu_atom", "cpu_lowpower")


class Core(NamedTuple):
    """One physical core.

    Attributes:
        cpus: the hardware threads that may be used, ascending.
        node: the id of the NUMA node.
        package: the id of the socket.
        cache: the group of cores that share the last cache, within the node: the lowest cpu that
            shares a cache of level 3 (or 4). Without one, likewise for level 2 if several cores
            share it, else one group for all cores of the node.
        kind: 0 for the fastest cores of a machine that has several kinds, 1 and more for slower
            cores.
    """

    cpus: tuple[int, ...]
    node: int
    package: int
    cache: int = 0
    kind: int = 0


class Topology(NamedTuple):
    """The cores and memory to divide among the workers.

    Attributes:
        cores: ascending by first cpu; every cpu that may be used is in exactly one.
        memory_nodes: ids of the NUMA nodes with memory that may be used, with or without cpus.
        fast_memory: for nodes with cpus, the nodes without cpus whose memory is faster than their
            own.
        twins: nodes whose cpus all belong to another node, and that node.
        near: for each node the nodes with cpus, the nearest first; empty if unknown.
    """

    cores: tuple[Core, ...]
    memory_nodes: frozenset[int]
    fast_memory: Mapping[int, tuple[int, ...]]
    twins: Mapping[int, int]
    near: Mapping[int, tuple[int, ...]]


def numa_nodes(topology: Topology) -> int:
    """Return the number of NUMA nodes with a usable cpu."""
    return len({core.node for core in topology.cores})


def read_topology(
    root: str = "/sys", allowed: Collection[int] = (), proc: str = "/proc"
) -> Topology:
    """Read the cores of the `allowed` cpus; by default those this process may run on.

    A container may hide files; nothing fails then: a cpu without topology is a separate core, a cpu
    without a NUMA node is on node 0, and no node has memory.
    """
    numa = read_numa(root, proc)
    cores = list(_cores(root, _online(root, allowed or os.sched_getaffinity(0))))
    nodes = [numa.home.get(cpus[0], 0) for cpus in cores]
    caches, kinds = _caches(root, cores, nodes), _kinds(root, cores)
    fields = zip(cores, nodes, _packages(root, cores), caches, kinds, strict=True)
    return Topology(
        tuple(Core(*core) for core in fields), numa.memory, numa.fast, numa.twins, numa.near
    )


def _online(root: str, allowed: Collection[int]) -> set[int]:
    """Return the allowed cpus that are not offline.

    `cpu/online` is not used: lxcfs may show a container an invented list there. A list of offline
    cpus that would leave none is ignored.
    """
    off = sysfs.numbers(f"{root}/devices/system/cpu/offline")
    return set(allowed) - off or set(allowed)


def _cores(root: str, usable: set[int]) -> Iterator[tuple[int, ...]]:
    """Group the cpus by core, one group each, whatever the files say."""
    left = set(usable)
    for cpu in sorted(usable):
        if cpu in left:
            core = {cpu} | (_listed(root, cpu, _SIBLINGS) & left)
            left -= core
            yield tuple(sorted(core))


def _packages(root: str, cores: Sequence[tuple[int, ...]]) -> list[int]:
    """Return each core's package, read once per package."""
    known: dict[int, int] = {}
    for cpu, *_ in cores:
        if cpu not in known:
            # Firmware that does not know it reports -1.
            package = sysfs.number(f"{_cpu(root, cpu)}/topology/physical_package_id") or 0
            known |= dict.fromkeys({cpu} | _listed(root, cpu, _PACKAGE), package)
    return [known[cpu] for cpu, *_ in cores]


def _caches(root: str, cores: Sequence[tuple[int, ...]], nodes: Sequence[int]) -> list[int]:
    """Return each core's group by its last cache; cores without one are a group in each node."""
    groups: dict[int, int] = {}
    alone: dict[int, int] = {}
    usable = {cpu for core in cores for cpu in core}
    last = max(_indices(root, cores[0][0]), default=0)
    for core, node in zip(cores, nodes, strict=True):
        if core[0] not in groups:
            shared = _cache(root, core, last, usable)
            group = min(shared) if shared else alone.setdefault(node, core[0])
            for cpu in shared or core:
                groups.setdefault(cpu, group)
    return [groups[core[0]] for core in cores]


def _cache(root: str, core: tuple[int, ...], last: int, usable: set[int]) -> set[int]:
    """Return the cpus that share the core's last cache, if the cache decides the groups."""
    for index in range(last, 0, -1):
        folder = f"{_cpu(root, core[0])}/cache/index{index}"
        shared = sysfs.numbers(f"{folder}/shared_cpu_list")
        if shared:
            level = sysfs.number(f"{folder}/level") or 0
            several = level == 2 and not shared & usable <= set(core)
            return shared | set(core) if level > 2 or several else set()
    return set()


def _indices(root: str, cpu: int) -> Iterator[int]:
    """Yield the numbers of a cpu's caches, which increase with their levels."""
    for name in sysfs.names(f"{_cpu(root, cpu)}/cache"):
        number = name.removeprefix("index")
        if number.isdecimal():
            yield int(number)


def _kinds(root: str, cores: Sequence[tuple[int, ...]]) -> list[int]:
    """Return each core's kind: Intel lists the cpus of each kind, Arm gives each cpu a capacity."""
    lists = [sysfs.numbers(f"{root}/devices/{name}/cpus") for name in _HYBRID]
    if any(lists):
        kinds = {cpu: kind for kind, cpus in enumerate(lists) for cpu in cpus}
        return [kinds.get(cpu, 0) for cpu, *_ in cores]
    if sysfs.number(f"{_cpu(root, cores[0][0])}/cpu_capacity") is None:
        return [0] * len(cores)
    capacities = [sysfs.number(f"{_cpu(root, cpu)}/cpu_capacity") or 0 for cpu, *_ in cores]
    classes = _classes(capacities)
    return [classes[capacity] for capacity in capacities]


def _classes(capacities: Sequence[int]) -> dict[int, int]:
    """Return the class of each capacity, 0 for the largest ones.

    A class reaches down to three quarters of its largest capacity: cores of one kind may differ a
    little in the firmware's figures.
    """
    classes: dict[int, int] = {}
    top, kind = max(capacities), 0
    for capacity in sorted(set(capacities), reverse=True):
        if capacity * 4 < top * 3:
            top, kind = capacity, kind + 1
        classes[capacity] = kind
    return classes


def _listed(root: str, cpu: int, files: Sequence[str]) -> set[int]:
    """Return the cpus in the first of these files of a cpu's topology that lists any."""
    paths = (f"{_cpu(root, cpu)}/topology/{name}" for name in files)
    return next(filter(None, map(sysfs.numbers, paths)), set())


def _cpu(root: str, cpu: int) -> str:
    return f"{root}/devices/system/cpu/cpu{cpu}"
