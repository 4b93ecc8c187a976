"""A machine as a tree of sockets, NUMA nodes, cores, devices and NICs, in text. Pure."""

from __future__ import annotations

from ...common.cpu_list import format_cpus
from ...common.records import NamedTuple
from ...common.wording import counted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from .node_topology import Core, Topology

GIB = 1 << 20
"""KiB in a GiB."""

Branch = tuple[str, "list[Branch]"]
"""A line, and the branches below it."""


class TreeNode(NamedTuple):
    """A device or a network card.

    Attributes:
        text: its description, in one line.
        node: its NUMA node; None if unknown.
    """

    text: str
    node: int | None


class Machine(NamedTuple):
    """A machine to draw.

    Attributes:
        memory: KiB of each NUMA node that has memory.
        hidden: number of online cpus that this process may not use.
        title: the plural of its kind of devices, or "".
    """

    name: str
    topology: Topology
    memory: Mapping[int, int]
    hidden: int
    title: str
    devices: Sequence[TreeNode]
    nics: Sequence[TreeNode]


def draw(machine: Machine) -> str:
    """Return a summary line for the machine, and below it the tree."""
    branches = [*_sockets(machine), *_memory_alone(machine), *_astray(machine)]
    return "\n".join([_summary(machine), *_lines(branches)])


def _summary(machine: Machine) -> str:
    cores = machine.topology.cores
    threads = sum(len(core.cpus) for core in cores)
    parts = [
        counted(len({core.package for core in cores}), "socket"),
        counted(len({core.node for core in cores}), "NUMA node"),
        counted(len(cores), "core"),
        *([counted(threads, "thread")] if threads > len(cores) else []),
        *([f"{machine.title}: {len(machine.devices)}"] if machine.title else ["no accelerators"]),
        *([f"{counted(machine.hidden, 'cpu')} not available to dsrun"] if machine.hidden else []),
    ]
    return f"{machine.name}: {', '.join(parts)}"


def _sockets(machine: Machine) -> Iterator[Branch]:
    by_socket: dict[int, dict[int, list[Core]]] = {}
    for core in machine.topology.cores:
        by_socket.setdefault(core.package, {}).setdefault(core.node, []).append(core)
    shown: set[int] = set()
    for socket, nodes in sorted(by_socket.items()):
        branches = [_node(machine, node, nodes[node], node not in shown) for node in sorted(nodes)]
        shown |= set(nodes)
        yield f"socket {socket}", branches


def _node(machine: Machine, node: int, cores: Sequence[Core], first: bool) -> Branch:
    """Return one node; devices of a node shared by sockets are shown at the first socket."""
    things = [*machine.devices, *machine.nics] if first else []
    attached: list[Branch] = [(one.text, []) for one in things if _home(machine, one) == node]
    return f"NUMA node {node}{_size(machine, node)}", [*_cores(cores), *attached]


def _cores(cores: Sequence[Core]) -> Iterator[Branch]:
    kinds = sorted({core.kind for core in cores})
    for kind in kinds:
        mine = [core for core in cores if core.kind == kind]
        cpus = format_cpus(cpu for core in mine for cpu in core.cpus)
        slower = "slower " if kind else ""
        yield f"{counted(len(mine), f'{slower}core')}: cpus {cpus}", _caches(mine)


def _caches(cores: Sequence[Core]) -> list[Branch]:
    """Return the groups of cores that share a last-level cache, if there are several."""
    groups: dict[int, list[int]] = {}
    for core in cores:
        groups.setdefault(core.cache, []).extend(core.cpus)
    if len(groups) < 2:
        return []
    shown = " | ".join(format_cpus(cpus) for cpus in groups.values())
    return [(f"{len(groups)} last-level caches: {shown}", [])]


def _memory_alone(machine: Machine) -> Iterator[Branch]:
    homes = {core.node for core in machine.topology.cores}
    fast = {node for nodes in machine.topology.fast_memory.values() for node in nodes}
    for node in sorted(machine.memory.keys() - homes):
        twin = machine.topology.twins.get(node)
        kind = "fast memory" if node in fast else "memory"
        what = f"{kind} without cores" if twin is None else f"more memory for node {twin}'s cores"
        yield f"NUMA node {node}, {what}{_size(machine, node)}", []


def _astray(machine: Machine) -> Iterator[Branch]:
    """Yield the devices that are at none of the nodes drawn."""
    homes = {core.node for core in machine.topology.cores}
    things = (*machine.devices, *machine.nics)
    lost = [one for one in things if _home(machine, one) not in homes]
    if lost:
        yield (
            "on none of these NUMA nodes",
            [(f"{one.text}{_at(one.node)}", []) for one in lost],
        )


def _home(machine: Machine, thing: TreeNode) -> int | None:
    """Return a device's node; if firmware does not report it, the only node of the machine."""
    homes = {core.node for core in machine.topology.cores}
    if thing.node is None:
        return next(iter(homes)) if len(homes) == 1 else None
    return machine.topology.twins.get(thing.node, thing.node)


def _at(node: int | None) -> str:
    return ", NUMA node unknown" if node is None else f", NUMA node {node}"


def _size(machine: Machine, node: int) -> str:
    size = machine.memory.get(node, 0)
    return f", {size / GIB:.1f} GiB" if size else ""


def _lines(branches: Iterable[Branch], indent: str = "") -> Iterator[str]:
    rest = list(branches)
    for at, (text, below) in enumerate(rest):
        last = at == len(rest) - 1
        yield f"{indent}{'└─ ' if last else '├─ '}{text}"
        yield from _lines(below, indent + ("   " if last else "│  "))
