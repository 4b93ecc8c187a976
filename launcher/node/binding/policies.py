"""The ways to bind: which cores each worker gets, given the NUMA node it belongs to."""

from __future__ import annotations

from ...common.errors import UsageError
from .sharing import blocks, even_shares

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from .topology import Core

    Shares = list[list[Core]]
    # The usable cores in NUMA order; each worker's node, None where no device decides it; workers.
    Way = Callable[[Sequence[Core], Sequence[int] | None, int], Shares]


def cores_each(cores: Sequence[Core], homes: Sequence[int] | None, workers: int) -> Shares:
    """Whole cores of one's own: of one's node, or of all nodes where no device decides."""
    if homes is None:
        return even_shares(cores, workers)
    own = _by_node(cores)
    return _for_each(homes, lambda node, local: even_shares(own[node], local))


def exclusive_each(cores: Sequence[Core], homes: Sequence[int] | None, workers: int) -> Shares:
    """Whole cores of one's own, all of one node.

    Raises:
        UsageError: a node has fewer cores than workers.
    """
    own = _by_node(cores)
    nodes = _dealt(list(own), homes, workers)
    for node in dict.fromkeys(nodes):
        if nodes.count(node) > len(own[node]):
            raise UsageError(
                f"--numa_binding exclusive: NUMA node {node} has {nodes.count(node)} workers, and"
                f" cores that may be used: {len(own[node])}; start fewer, or use --bind_to core"
            )
    return cores_each(cores, nodes, workers)


def whole_node(cores: Sequence[Core], homes: Sequence[int] | None, workers: int) -> Shares:
    """All cores of one's node."""
    own = _by_node(cores)
    return [own[node] for node in _dealt(list(own), homes, workers)]


def whole_socket(cores: Sequence[Core], homes: Sequence[int] | None, workers: int) -> Shares:
    """All cores of one's socket, and never less than one's node.

    A virtual machine may call every cpu a socket.
    """
    packages = {
        node: frozenset(core.package for core in own) for node, own in _by_node(cores).items()
    }
    places: dict[frozenset[int], int] = {}
    for node, sockets in packages.items():
        places.setdefault(sockets, node)
    whole = {sockets: [core for core in cores if core.package in sockets] for sockets in places}
    return [whole[packages[node]] for node in _dealt(list(places.values()), homes, workers)]


def complex_each(cores: Sequence[Core], homes: Sequence[int] | None, workers: int) -> Shares:
    """The cores of one's node that share a cache, one such group a worker, the fullest first."""
    own = _by_node(cores)
    nodes = _dealt(list(own), homes, workers)
    return _for_each(nodes, lambda node, local: _complexes(own[node], local))


POLICIES: Mapping[str, Way] = {
    "core": cores_each,
    "exclusive": exclusive_each,
    "numa": whole_node,
    "socket": whole_socket,
    "core-complex": complex_each,
}


def _complexes(cores: Sequence[Core], workers: int) -> Shares:
    groups = list(_grouped((core.cache, core) for core in cores).values())
    # Stable: among equals the one with the lowest cpu comes first.
    groups.sort(key=lambda group: -sum(len(core.cpus) for core in group))
    return [groups[worker % len(groups)] for worker in range(workers)]


def _dealt(places: Sequence[int], homes: Sequence[int] | None, workers: int) -> list[int]:
    """Each worker's node: its device's, else dealt out in blocks."""
    if homes is not None:
        return list(homes)
    return [places[place] for place in blocks(workers, len(places))]


def _for_each(homes: Sequence[int], share: Callable[[int, int], Shares]) -> Shares:
    """Share out each node among its own workers, in the order of their ranks."""
    shares = {node: iter(share(node, homes.count(node))) for node in dict.fromkeys(homes)}
    return [next(shares[node]) for node in homes]


def _by_node(cores: Sequence[Core]) -> dict[int, list[Core]]:
    return _grouped((core.node, core) for core in cores)


def _grouped(pairs: Iterable[tuple[int, Core]]) -> dict[int, list[Core]]:
    groups: dict[int, list[Core]] = {}
    for key, one in pairs:
        groups.setdefault(key, []).append(one)
    return groups
