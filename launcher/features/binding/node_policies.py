"""The binding policies: which cores each worker gets, given its NUMA node."""

from __future__ import annotations

from ...common.errors import UsageError
from ...common.wording import counted
from .node_sharing import blocks, even_shares

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from .node_topology import Core

    Shares = list[list[Core]]
    # From the usable cores in NUMA order, each worker's node (None: no device determines it), and
    # the number of workers.
    Policy = Callable[[Sequence[Core], Sequence[int] | None, int], Shares]


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
