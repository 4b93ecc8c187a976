"""Made-up machines, written as the sysfs trees that Linux would show of them.

The form is that of Documentation/admin-guide/cputopology.rst, admin-guide/mm/numaperf.rst,
ABI/stable/sysfs-devices-node and ABI/testing/sysfs-devices-system-cpu. How the real ones number
their cpus and nodes is what the makers publish; sizes are cut down where nothing hangs on them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from dsrun.launcher.common.cpu_list import format_cpus
from dsrun.launcher.features.binding.node_topology import Topology, read_topology

GIB = 1 << 20
"""In KiB, as meminfo counts."""

_NONE: Mapping[int, int] = {}


class Made(NamedTuple):
    """A core of a made-up machine.

    Attributes:
        cpus: its hardware threads.
        node: its NUMA node.
        package: its socket.
        l3: names the cores that share a level 3 cache; None for no such cache.
        l2: the same for level 2; None for one of its own.
        kind: 1 for Intel's cpu_atom on a machine that has several kinds.
        capacity: its `cpu_capacity`, which Arm has.
    """

    cpus: tuple[int, ...]
    node: int = 0
    package: int = 0
    l3: int | None = None
    l2: int | None = None
    kind: int = 0
    capacity: int | None = None


class Machine(NamedTuple):
    """A made-up machine.

    Attributes:
        cores: its physical cores.
        memory: NUMA nodes and the KiB of memory on each.
        beside: nodes without cpus, and the one with cpus that each is nearest to.
        bandwidth: MB/s of nodes, as their nearest node with cpus reads them.
        twins: parts of a node divided by `numa=fake=`, and that node.
        devices: nodes that belong to devices (generic initiators).
        offline: cpus switched off.
        allowed: the cpus that may be used, where these are not all that are on.
        mems: the nodes whose memory may be used (Mems_allowed_list).
    """

    cores: Sequence[Made]
    memory: Mapping[int, int]
    beside: Mapping[int, int] = _NONE
    bandwidth: Mapping[int, int] = _NONE
    twins: Mapping[int, int] = _NONE
    devices: Sequence[int] = ()
    offline: Sequence[int] = ()
    allowed: Sequence[int] = ()
    mems: str = "0-1023"

    @property
    def cpus(self) -> set[int]:
        """The cpus that may be used."""
        every = {cpu for core in self.cores for cpu in core.cpus}
        return set(self.allowed) or every - set(self.offline)

    @property
    def kinds(self) -> int:
        """How many kinds of Intel's cores there are."""
        return len({core.kind for core in self.cores})


def known(machine: str | Machine) -> Topology:
    """Read a machine, or one of `MACHINES` by its name: those are read only once."""
    return _known(machine) if isinstance(machine, str) else topology(machine)


@cache
def _known(name: str) -> Topology:
    return topology(MACHINES[name])


def topology(machine: Machine, *, old: bool = False) -> Topology:
    """Read a machine, written to a folder for that long."""
    with TemporaryDirectory() as folder:
        root, proc = build(Path(folder, "sys"), machine, old=old), status(Path(folder), machine)
        return read_topology(root, machine.cpus, proc)


def build(root: Path, machine: Machine, *, old: bool = False) -> str:
    """Write the machine's sysfs; `old` with the names before Linux 5.3. Returns its path."""
    for core in machine.cores:
        _write_core(root, machine, core, old=old)
    cpu = root / "devices/system/cpu"
    write(cpu / "offline", format_cpus(machine.offline))
    write(cpu / "online", format_cpus(machine.cpus))
    for kind, name in enumerate(("cpu_core", "cpu_atom")) if machine.kinds > 1 else ():
        same = (cpu for core in machine.cores if core.kind == kind for cpu in core.cpus)
        write(root / "devices" / name / "cpus", format_cpus(same))
    for node in machine.memory:
        _write_node(root / "devices/system/node", machine, node)
    return str(root)


def status(root: Path, machine: Machine) -> str:
    """Write what of procfs tells the memory that may be used. Returns its path."""
    mems = f"Mems_allowed:\tffffffff\nMems_allowed_list:\t{machine.mems}"
    write(root / "self/status", f"Name:\tx\n{mems}")
    return str(root)


def write(path: Path, text: str) -> None:
    """Write one file of sysfs, and the folders above it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{text}\n", encoding="ascii")


def _write_core(root: Path, machine: Machine, core: Made, *, old: bool) -> None:
    on = [cpu for cpu in core.cpus if cpu not in machine.offline]
    package = _sharing(machine, lambda one: one.package == core.package)
    names = ("thread_siblings_list", "core_siblings_list") if old else _LISTS
    # As the kernel does it: the topology of a cpu that is off is gone.
    for cpu in on:
        folder = root / f"devices/system/cpu/cpu{cpu}"
        for name, cpus in zip(names, (on, package), strict=True):
            write(folder / "topology" / name, format_cpus(cpus))
        write(folder / "topology/physical_package_id", str(core.package))
        _write_caches(folder / "cache", machine, core, on)
        if core.capacity is not None:
            write(folder / "cpu_capacity", str(core.capacity))


_LISTS = ("core_cpus_list", "package_cpus_list")


def _write_caches(folder: Path, machine: Machine, core: Made, own: Sequence[int]) -> None:
    """Write levels 2 and 3; 0 and 1 are the two of level 1, which are a core's own."""
    two = own if core.l2 is None else _sharing(machine, lambda one: one.l2 == core.l2)
    caches = {2: two}
    if core.l3 is not None:
        caches[3] = _sharing(machine, lambda one: one.l3 == core.l3)
    for level, cpus in caches.items():
        write(folder / f"index{level}/level", str(level))
        write(folder / f"index{level}/shared_cpu_list", format_cpus(cpus))


def _sharing(machine: Machine, share: Callable[[Made], bool]) -> list[int]:
    cpus = (cpu for core in machine.cores if share(core) for cpu in core.cpus)
    return [cpu for cpu in cpus if cpu not in machine.offline]


def _write_node(folder: Path, machine: Machine, node: int) -> None:
    path, home = folder / f"node{node}", machine.twins.get(node, node)
    write(path / "cpulist", format_cpus(_sharing(machine, lambda one: one.node == home)))
    total = f"Node {node} MemTotal:  {machine.memory[node]:>12} kB"
    write(path / "meminfo", f"{total}\nNode {node} MemFree: 7 kB")
    row = (_distance(machine, node, other) for other in sorted(machine.memory))
    write(path / "distance", " ".join(map(str, row)))
    if node in machine.bandwidth:
        access = path / "access0/initiators"
        write(access / "read_bandwidth", str(machine.bandwidth[node]))
        (access / f"node{machine.beside.get(node, node)}").mkdir()
    write(folder / "has_generic_initiator", format_cpus(machine.devices))
    write(folder / "possible", "0-1023")


def _distance(machine: Machine, one: int, other: int) -> int:
    """10 within a node, 13 to memory beside it, 12 within a socket, 21 between them."""
    one, other = machine.twins.get(one, one), machine.twins.get(other, other)
    if one == other:
        return 10
    if machine.beside.get(one) == other or machine.beside.get(other) == one:
        return 13
    packages = [{core.package for core in machine.cores if core.node == n} for n in (one, other)]
    return 12 if packages[0] & packages[1] else 21


def grid(
    packages: int,
    nodes: int,
    caches: int,
    cores: int,
    *,
    threads: int = 1,
    make: Callable[..., Made] = Made,
) -> list[Made]:
    """Cores in the usual order: so many nodes a package, caches a node and cores a cache.

    The second threads come after all first ones.
    """
    total = packages * nodes * caches * cores
    return [
        make(
            tuple(range(core, total * threads, total)),
            node=core // (caches * cores),
            package=core // (nodes * caches * cores),
            l3=core // cores,
        )
        for core in range(total)
    ]


def gib(nodes: Iterable[int]) -> dict[int, int]:
    """A GiB on each of these nodes."""
    return dict.fromkeys(nodes, GIB)


ONE_SOCKET = Machine(grid(1, 1, 1, 4), gib([0]))
INTERLEAVED = Machine(grid(2, 1, 1, 4, threads=2), gib([0, 1]))
"""Two sockets in Intel's numbering: all first threads, then all second ones."""
ADJACENT = Machine(
    [Made((2 * n, 2 * n + 1), n // 4, n // 4, l3=n // 4) for n in range(8)], gib([0, 1])
)
"""Siblings next to each other, as on POWER and in many virtual machines."""
ALTERNATING = Machine([Made((n,), n % 2, n % 2, l3=n % 2) for n in range(8)], gib([0, 1]))
"""Cpus dealt out to the sockets in turn."""
CLUSTERS = Machine(
    [Made((n,), n // 4 + 2 * (n // 2 % 2), n // 4, l3=n // 4) for n in range(8)], gib(range(4))
)
"""SNC-2 with nodes whose ids alternate between the sockets."""
SNC4 = Machine(grid(2, 4, 1, 3, threads=2), gib(range(8)))
HBM = Machine(INTERLEAVED.cores, gib(range(4)), beside={2: 0, 3: 1})
"""Memory without cpus on nodes 2 and 3, and no word on how fast it is."""
CXL = HBM._replace(bandwidth={0: 300_000, 1: 300_000, 2: 30_000, 3: 30_000})
XEON_MAX = Machine(
    grid(2, 4, 1, 4, threads=2),
    gib(range(16)),
    beside={node: node - 8 for node in range(8, 16)},
    bandwidth={node: 32_768 if node < 8 else 131_072 for node in range(16)},
)
"""Flat mode with SNC-4: eight nodes of high-bandwidth memory."""
EPYC_NPS1 = Machine(grid(1, 1, 8, 4, threads=2), gib([0]))
EPYC_NPS4 = Machine(grid(1, 4, 2, 4, threads=2), gib(range(4)))
DGX = Machine(grid(2, 1, 1, 56, threads=2), gib([0, 1]))
GRACE = Machine(
    grid(1, 1, 1, 72, make=partial(Made, capacity=1024)),
    gib([0, 1]) | dict.fromkeys(range(2, 9), 0),
    beside=dict.fromkeys(range(1, 9), 0),
    bandwidth={0: 384_000, 1: 450_000},
    devices=range(1, 9),
)
"""Its GPU's memory is node 1, and its parts, not in use, are nodes 2 to 8."""
FAKE = Machine(grid(2, 1, 1, 4, threads=2), gib(range(4)), twins={2: 0, 3: 1})
"""`numa=fake=4` on two sockets: nodes 0 and 2 are parts of the first."""
GAPS = Machine([Made((n,), n // 3 * 8, n // 3 * 8, l3=n // 3) for n in range(6)], gib([0, 8, 252]))
"""POWER9: ids with gaps, and a GPU's memory as a node of its own."""
SOCKETS = Machine([Made((n,), n % 2, n) for n in range(8)], gib([0, 1]))
"""A virtual machine that calls every cpu a socket."""
UNEVEN = Machine(
    [*(Made((n,), 0, 0, l3=0) for n in range(3)), *(Made((n,), 1, 1, l3=1) for n in range(3, 7))],
    gib([0, 1]),
)
HYBRID = Machine(
    [
        *(Made((2 * n, 2 * n + 1), l3=0) for n in range(6)),
        *(Made((n,), l3=0, l2=n // 4, kind=1) for n in range(12, 20)),
    ],
    gib([0]),
)
"""A laptop: six cores with two threads each, eight slower ones without."""
BIG_LITTLE = Machine(
    [Made((n,), l3=0, capacity=446 if n < 4 else 1024 - n % 2) for n in range(8)], gib([0])
)
"""Arm: four slow cores, then four fast ones that firmware rates a little differently."""
NO_L3 = Machine([Made((n,), n // 6, n // 6) for n in range(12)], gib([0, 1]))
"""Ampere's: the cache behind the level 2 of each core is not listed."""
SHARED_L2 = Machine([Made((n,), n // 8, n // 8, l2=n // 4) for n in range(16)], gib([0, 1]))
MEMORYLESS = Machine(INTERLEAVED.cores, {0: GIB, 1: 0, 2: GIB}, beside={2: 0})
ODD_CPUSET = INTERLEAVED._replace(allowed=(1, 5, 7, 13), mems="0-1")
"""A container with three cores, one of them with both threads."""
ONE_NODES_MEMORY = SNC4._replace(mems="0,2-3")
OFFLINE = Machine(grid(2, 1, 1, 4, threads=2), gib([0, 1]), offline=(2, 8, 9, 15))

MACHINES: Mapping[str, Machine] = {
    name.lower(): machine for name, machine in list(globals().items()) if type(machine) is Machine
}


def large() -> Machine:
    """Two sockets with 128 cores of two threads each, eight cores a cache, NPS4."""
    return Machine(grid(2, 4, 4, 8, threads=2), gib(range(8)))
