"""The cores and memory of each worker of a node: the policies. Pure: `node_topology` reads."""

from __future__ import annotations

from collections import Counter

from ...common.cpu_list import format_cpus, parse_core_list
from ...common.errors import UsageError
from ...common.records import NamedTuple
from ...common.wording import counted
from .node_device_nodes import find_homes
from .node_sharing import blocks, even_shares, numa_order

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from ...specs.policies import BindingPolicy
    from .node_topology import Core, Topology

    Shares = list[list[Core]]
    Policy = Callable[[Sequence[Core], Sequence[int] | None, int], Shares]

# Policies that give each core to one worker, and the part shared if there are too few.
_UNSHARED = ("core", "exclusive")
_SHARED = {"core": ("core", "cores"), "core-complex": ("core complex", "core complexes")}


class WorkerShare(NamedTuple):
    """One worker's share of the node.

    Attributes:
        cpus: every hardware thread it may run on, ascending.
        cores: the number of their physical cores, at least 1.
        memory: ids of the NUMA nodes to take memory from; empty for no rule.
        policy: the memory policy as in `MemoryRule`; "" for no rule.
    """

    cpus: tuple[int, ...]
    cores: int
    memory: tuple[int, ...] = ()
    policy: str = ""


class BindingPlan(NamedTuple):
    """The binding of all workers of a node.

    Attributes:
        bindings: the share of each worker, by local rank; empty if nothing is bound.
        notes: lines about anything unexpected.
    """

    bindings: tuple[WorkerShare, ...]
    notes: tuple[str, ...]


def plan(
    topology: Topology,
    device_nodes: Sequence[int | None],
    policy: BindingPolicy,
    *,
    devices: bool = False,
) -> BindingPlan:
    """Plan the binding of one worker or more.

    Args:
        topology: the cores and memory that may be used.
        device_nodes: the NUMA node of each worker's device, by local rank; None where there is
            no device or its node is not known.
        policy: the binding policy.
        devices: whether workers have devices, even with unknown nodes.

    Raises:
        UsageError: the core list is malformed, or names a cpu that may not be used; or a node has
            too few cores for `exclusive`.
    """
    if policy.bind_to == "none":
        return BindingPlan((), ())
    cores = numa_order(_usable(topology.cores, policy))
    homes = find_homes(topology, {core.node for core in cores}, device_nodes, devices=devices)
    shares = POLICIES[policy.bind_to](cores, homes.nodes, len(device_nodes))
    rules = [
        memory_rule(topology, {core.node for core in share}, policy.memory) for share in shares
    ]
    notes = [*homes.notes, *_notes(policy.bind_to, cores, shares), *(rule.note for rule in rules)]
    return BindingPlan(
        tuple(
            WorkerShare(_cpus(share), len(share), rule.nodes, rule.policy)
            for share, rule in zip(shares, rules, strict=True)
        ),
        tuple(dict.fromkeys(filter(None, notes))),
    )


def _usable(cores: Sequence[Core], policy: BindingPolicy) -> Sequence[Core]:
    listed = _listed(cores, policy.core_list) if policy.core_list else cores
    return listed if policy.smt else [core._replace(cpus=core.cpus[:1]) for core in listed]


def _listed(cores: Sequence[Core], core_list: str) -> Sequence[Core]:
    listed = set(parse_core_list(core_list))
    allowed = {cpu for core in cores for cpu in core.cpus}
    if outside := listed - allowed:
        raise UsageError(
            f"--bind_core_list: '{core_list}': cpu {format_cpus(outside)} may not be used here"
            f" (allowed: {format_cpus(allowed)})"
        )
    reduced = (core._replace(cpus=tuple(sorted(listed.intersection(core.cpus)))) for core in cores)
    return [core for core in reduced if core.cpus]


def _cpus(share: Sequence[Core]) -> tuple[int, ...]:
    return tuple(sorted(cpu for core in share for cpu in core.cpus))


def _notes(bind_to: str, cores: Sequence[Core], shares: Sequence[Sequence[Core]]) -> Iterator[str]:
    """Yield notes on resources that workers must share, and on unused cores."""
    shared = [count for count in Counter(share[0] for share in shares).values() if count > 1]
    if bind_to in _SHARED and shared:
        what = _SHARED[bind_to][len(shared) > 1]
        yield f"{sum(shared)} workers share {len(shared)} {what}"
    nodes = {core.node for share in shares for core in share}
    for node in dict.fromkeys(core.node for core in cores if core.node not in nodes):
        if bind_to in _UNSHARED:
            idle = sum(core.node == node for core in cores)
            yield f"no worker on NUMA node {node}: its cores ({idle}) are not used"


class MemoryRule(NamedTuple):
    """A memory policy for the kernel (set_mempolicy(2)).

    Attributes:
        nodes: ids of the NUMA nodes to take memory from, ascending; empty for no rule.
        policy: `bind`, `preferred` or `interleave`; "" for no rule.
        note: why there is no rule although one was requested, or "".
    """

    nodes: tuple[int, ...] = ()
    policy: str = ""
    note: str = ""


def memory_rule(topology: Topology, nodes: Collection[int], requested: str) -> MemoryRule:
    """Return the rule for a worker with cores on these nodes.

    `auto` prefers memory that is faster than the nodes' own, if all of them have some; otherwise it
    binds to the nodes' own. There is no rule if it would not help: for all memory of the machine,
    or for a node without memory.
    """
    if requested == "none":
        return MemoryRule()
    auto = requested == "auto"
    fast = _fast(topology, nodes) if auto else set()
    wanted = fast or _own(topology, nodes)
    policy = requested if not auto else "preferred" if fast else "bind"
    if problem := _problem(topology, wanted, policy):
        return MemoryRule(note="" if auto else f"--bind_memory {requested}: {problem}")
    return MemoryRule(tuple(sorted(wanted)), policy)


def _fast(topology: Topology, nodes: Collection[int]) -> set[int]:
    """Return the nodes with faster memory than these nodes' own; none unless each has one."""
    parts = [topology.fast_memory.get(node, ()) for node in nodes]
    return set().union(*parts) if all(parts) else set()


def _own(topology: Topology, nodes: Collection[int]) -> set[int]:
    """Return the nodes and their twins with usable memory; none if a node has neither."""
    parts = [{node, *_twins(topology, node)} & topology.memory_nodes for node in nodes]
    return set().union(*parts) if all(parts) else set()


def _twins(topology: Topology, node: int) -> list[int]:
    return [twin for twin, home in topology.twins.items() if home == node]


def _problem(topology: Topology, wanted: set[int], policy: str) -> str:
    if len(topology.memory_nodes) < 2:
        return "not set: fewer than two NUMA nodes here have memory"
    if not wanted:
        return "not set for cores on a NUMA node whose memory may not be used"
    if policy == "interleave":
        return "" if len(wanted) > 1 else "not set for cores on one NUMA node"
    return "not set for cores on all NUMA nodes" if wanted == topology.memory_nodes else ""


def cores_each(cores: Sequence[Core], homes: Sequence[int] | None, workers: int) -> Shares:
    """Give each worker its own whole cores, of its node, or of all if no device determines it."""
    if homes is None:
        return even_shares(cores, workers)
    own = _by_node(cores)
    return _for_each(homes, lambda node, local: even_shares(own[node], local))


def exclusive_each(cores: Sequence[Core], homes: Sequence[int] | None, workers: int) -> Shares:
    """Give each worker its own whole cores, all of one node.

    Raises:
        UsageError: a node has fewer cores than workers.
    """
    own = _by_node(cores)
    nodes = _worker_nodes(list(own), homes, workers)
    for node in dict.fromkeys(nodes):
        if nodes.count(node) > len(own[node]):
            raise UsageError(
                f"--numa_binding exclusive: NUMA node {node} has"
                f" {counted(nodes.count(node), 'worker')} but only"
                f" {counted(len(own[node]), 'usable core')}; start fewer workers, or use"
                " --bind_to core"
            )
    return cores_each(cores, nodes, workers)


def whole_node(cores: Sequence[Core], homes: Sequence[int] | None, workers: int) -> Shares:
    """Give each worker all cores of its node."""
    own = _by_node(cores)
    return [own[node] for node in _worker_nodes(list(own), homes, workers)]


def whole_socket(cores: Sequence[Core], homes: Sequence[int] | None, workers: int) -> Shares:
    """Give each worker all cores of its socket, and at least all cores of its node.

    In a virtual machine every cpu may be a socket.
    """
    packages = {
        node: frozenset(core.package for core in own) for node, own in _by_node(cores).items()
    }
    places: dict[frozenset[int], int] = {}
    for node, sockets in packages.items():
        places.setdefault(sockets, node)
    whole = {sockets: [core for core in cores if core.package in sockets] for sockets in places}
    return [whole[packages[node]] for node in _worker_nodes(list(places.values()), homes, workers)]


def complex_each(cores: Sequence[Core], homes: Sequence[int] | None, workers: int) -> Shares:
    """Give each worker a group of cores of its node that share a cache, the largest first."""
    own = _by_node(cores)
    nodes = _worker_nodes(list(own), homes, workers)
    return _for_each(nodes, lambda node, local: _complexes(own[node], local))


POLICIES: Mapping[str, Policy] = {
    "core": cores_each,
    "exclusive": exclusive_each,
    "numa": whole_node,
    "socket": whole_socket,
    "core-complex": complex_each,
}


def _complexes(cores: Sequence[Core], workers: int) -> Shares:
    groups = list(_grouped((core.cache, core) for core in cores).values())
    # The sort is stable: among equals the one with the lowest cpu comes first.
    groups.sort(key=lambda group: -sum(len(core.cpus) for core in group))
    return [groups[worker % len(groups)] for worker in range(workers)]


def _worker_nodes(places: Sequence[int], homes: Sequence[int] | None, workers: int) -> list[int]:
    """Return each worker's node: its device's, else assigned in blocks."""
    if homes is not None:
        return list(homes)
    return [places[place] for place in blocks(workers, len(places))]


def _for_each(homes: Sequence[int], share: Callable[[int, int], Shares]) -> Shares:
    """Divide each node's cores among its workers, in order of rank."""
    shares = {node: iter(share(node, homes.count(node))) for node in dict.fromkeys(homes)}
    return [next(shares[node]) for node in homes]


def _by_node(cores: Sequence[Core]) -> dict[int, list[Core]]:
    return _grouped((core.node, core) for core in cores)


def _grouped(pairs: Iterable[tuple[int, Core]]) -> dict[int, list[Core]]:
    groups: dict[int, list[Core]] = {}
    for key, one in pairs:
        groups.setdefault(key, []).append(one)
    return groups
