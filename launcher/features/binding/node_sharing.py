"""Divides cores evenly: whole adjacent cores, on as few NUMA nodes as possible."""

from __future__ import annotations

from itertools import accumulate, pairwise

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from .node_topology import Core


def numa_order(cores: Sequence[Core]) -> list[Core]:
    """Sort cores by node, with the nodes of a socket together even if their ids alternate."""
    sockets: dict[int, int] = {}
    for core in cores:
        sockets[core.node] = min(core.package, sockets.get(core.node, core.package))
    return sorted(cores, key=lambda core: (sockets[core.node], core.node, core.cpus))


def even_shares(cores: Sequence[Core], workers: int) -> list[list[Core]]:
    """Divide all cores, given in NUMA order, among one worker or more.

    Shares differ by one core at most. The larger ones are placed so that the shares touch the
    fewest NUMA nodes, else they go to the lower ranks. If there are several kinds of cores, the
    shares also differ by one core at most in each kind. If there are more workers than cores, each
    worker gets one core, round robin.
    """
    kinds = sorted({core.kind for core in cores})
    by_kind = [[core for core in cores if core.kind == kind] for kind in kinds]
    if workers > len(cores):
        fastest_first = [core for same in by_kind for core in same]
        return [[fastest_first[worker % len(cores)]] for worker in range(workers)]
    if len(kinds) == 1:
        return _runs(cores, _sizes([core.node for core in cores], workers))
    return _shares_of_each(by_kind, workers)


def blocks(workers: int, places: int) -> list[int]:
    """Assign workers to places in consecutive blocks, which differ by one worker at most."""
    return [worker * places // workers for worker in range(workers)]


def _shares_of_each(by_kind: Sequence[Sequence[Core]], workers: int) -> list[list[Core]]:
    """Divide each kind; its larger shares go to the ranks after those that got larger ones last."""
    shares: list[list[Core]] = [[] for _ in range(workers)]
    turn = 0
    for cores in by_kind:
        base, larger = divmod(len(cores), workers)
        sizes = [base + ((rank - turn) % workers < larger) for rank in range(workers)]
        for share, more in zip(shares, _runs(cores, sizes), strict=True):
            share.extend(more)
        turn += larger
    return shares


def _runs(cores: Sequence[Core], sizes: Sequence[int]) -> list[list[Core]]:
    ends = accumulate(sizes, initial=0)
    return [list(cores[start:end]) for start, end in pairwise(ends)]


def _sizes(nodes: Sequence[int], workers: int) -> list[int]:
    """Return the number of cores of each worker, given the NUMA node of each core in order.

    The beginning of a share depends on the number of larger shares before it. From the last worker
    to the first, the best size is computed for every possible beginning.
    """
    base, larger = divmod(len(nodes), workers)
    if not larger or len(set(nodes)) == 1:
        return [base + (rank < larger) for rank in range(workers)]
    steps = (one != next_one for one, next_one in pairwise(nodes))
    order = list(accumulate(steps, initial=0))
    touched = {len(nodes): 0}
    choices: list[dict[int, int]] = []
    for rank in reversed(range(workers)):
        first = rank * base
        starts = range(first, first + min(rank, larger) + 1)
        best = {start: _best(start, base, order, touched) for start in starts}
        touched = {start: choice[0] for start, choice in best.items() if choice}
        choices.append({start: choice[1] for start, choice in best.items() if choice})
    return _chosen(choices[::-1])


def _best(
    start: int, base: int, order: Sequence[int], touched: dict[int, int]
) -> tuple[int, int] | None:
    """Return the fewest nodes that shares from here on touch, and this share's size, or None.

    None means that neither size is possible. In a tie the larger size goes to the lower rank.
    """
    options = [
        (touched[start + size] + 1 + order[start + size - 1] - order[start], size)
        for size in (base + 1, base)
        if start + size in touched
    ]
    return min(options, key=lambda one: one[0], default=None)


def _chosen(choices: Sequence[dict[int, int]]) -> list[int]:
    sizes: list[int] = []
    start = 0
    for choice in choices:
        sizes.append(choice[start])
        start += choice[start]
    return sizes
