"""Where a worker's memory comes from, given its cores."""

from __future__ import annotations

from ...common.values import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection

    from .topology import Topology


class MemoryRule(NamedTuple):
    """What the kernel is to be told (set_mempolicy(2)).

    Attributes:
        nodes: ids of the NUMA nodes to take memory from, ascending; empty for no rule.
        policy: `bind`, `preferred` or `interleave`; "" for no rule.
        note: why there is none although it was asked for, or "".
    """

    nodes: tuple[int, ...] = ()
    policy: str = ""
    note: str = ""


def memory_rule(topology: Topology, nodes: Collection[int], asked: str) -> MemoryRule:
    """Return the rule for a worker with cores on these nodes.

    `auto` prefers memory that is faster than the nodes' own, where all of them have some;
    otherwise it binds to the nodes' own. Nothing is bound where a rule can but do harm: to all
    the memory there is, or to a node without any.
    """
    if asked == "none":
        return MemoryRule()
    fast = _fast(topology, nodes) if asked == "auto" else set()
    wanted = fast or _own(topology, nodes)
    policy = asked if asked != "auto" else "preferred" if fast else "bind"
    if problem := _problem(topology, wanted, policy):
        return MemoryRule(note="" if asked == "auto" else f"--bind_memory {asked}: {problem}")
    return MemoryRule(tuple(sorted(wanted)), policy)


def _fast(topology: Topology, nodes: Collection[int]) -> set[int]:
    """The nodes whose memory is faster than these nodes' own; none where one has no such."""
    parts = [topology.fast_memory.get(node, ()) for node in nodes]
    return set().union(*parts) if all(parts) else set()


def _own(topology: Topology, nodes: Collection[int]) -> set[int]:
    """The nodes and their twins, as far as memory may be used there; none where one has none."""
    parts = [{node, *_twins(topology, node)} & topology.memory_nodes for node in nodes]
    return set().union(*parts) if all(parts) else set()


def _twins(topology: Topology, node: int) -> list[int]:
    return [twin for twin, home in topology.twins.items() if home == node]


def _problem(topology: Topology, wanted: set[int], policy: str) -> str:
    if len(topology.memory_nodes) < 2:
        return "no rule, as there are no two NUMA nodes with memory here"
    if not wanted:
        return "no rule for cores on a NUMA node whose memory may not be used"
    if policy == "interleave":
        return "" if len(wanted) > 1 else "no rule for cores on one NUMA node"
    return "no rule for cores on all NUMA nodes" if wanted == topology.memory_nodes else ""
