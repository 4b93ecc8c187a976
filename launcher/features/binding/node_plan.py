"""The cores and memory of each worker of a node. Pure: `topology.py` reads, this plans."""

from __future__ import annotations

from collections import Counter

from ...common.cpu_list import format_cpus, parse_core_list
from ...common.errors import UsageError
from ...common.records import NamedTuple
from .node_device_nodes import find_homes
from .node_memory import memory_rule
from .node_policies import POLICIES
from .node_sharing import numa_order

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ...specs.policies import BindingPolicy
    from .node_topology import Core, Topology

# Policies that give each core to one worker, and the part shared if there are too few.
_UNSHARED = ("core", "exclusive")
_SHARED = {"core": ("core", "cores"), "core-complex": ("core complex", "core complexes")}


class WorkerShare(NamedTuple):
    """One worker's share of the node.

    Attributes:
        cpus: every hardware thread it may run on, ascending.
        cores: the number of their physical cores, at least 1.
        memory: ids of the NUMA nodes to take memory from; empty for no rule.
        policy: the memory policy as in `memory.MemoryRule`; "" for no rule.
    """

    cpus: tuple[int, ...]
    cores: int
    memory: tuple[int, ...] = ()
    policy: str = ""


class BindingPlan(NamedTuple):
    """The binding of all workers of a node.

    Attributes:
        bindings: by local rank; empty if nothing is bound.
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
