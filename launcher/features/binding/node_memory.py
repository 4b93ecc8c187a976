"""The source of a worker's memory, given its cores."""

from __future__ import annotations

from ...common.records import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection

    from .node_topology import Topology


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
    """Return the nodes with faster memory than these nodes' own; none if a node lacks one."""
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
