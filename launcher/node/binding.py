"""Which cores each worker of a node gets. Pure: `topology.py` reads, this plans."""

from __future__ import annotations

import re

from ..errors import UsageError
from ..values import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from .topology import Core, Topology

    # Over the shares from some worker on: the NUMA nodes each touches, summed; their sizes.
    _Sizes = tuple[int, tuple[int, ...]]

# Five digits: more cpus than Linux can be built for (NR_CPUS), few enough to list.
_RANGE = re.compile(r"([0-9]{1,5})(?:-([0-9]{1,5}))?")

_REFUSED = "KMP_AFFINITY"
_KEPT = ("GOMP_CPU_AFFINITY", "OMP_PLACES")


class Binding(NamedTuple):
    """One worker's share of the node.

    Attributes:
        cpus: every hardware thread it may run on, ascending.
        cores: how many physical cores these are, at least 1: what OMP_NUM_THREADS should be.
        memory: ids of the NUMA nodes to take memory from; empty for no rule.
    """

    cpus: tuple[int, ...]
    cores: int
    memory: tuple[int, ...]


def plan_bindings(
    topology: Topology, workers: int, core_list: str | None = None
) -> tuple[Binding, ...]:
    """Share the cores out, by local rank, to one worker or more.

    Each worker gets whole physical cores that follow one another in NUMA order. None is left
    over and shares differ by one core at most; the larger ones go where the shares then touch the
    fewest NUMA nodes, else to the lower ranks. More workers than cores share them round robin.

    Args:
        topology: the cores and memory that may be used.
        workers: how many workers the node runs, 1 or more.
        core_list: `--bind_core_list`: only these cpus, as in `1,3-5`.

    Raises:
        UsageError: `core_list` is malformed, or names a cpu that may not be used.
    """
    cores = _numa_order(_listed(topology.cores, core_list))
    if workers > len(cores):
        shares = [[cores[worker % len(cores)]] for worker in range(workers)]
    else:
        shares = _shares(cores, workers)
    return tuple(_binding(share, topology.memory_nodes) for share in shares)


def parse_core_list(text: str, where: str = "--bind_core_list") -> tuple[int, ...]:
    """Read `1,3-5` as cpu numbers, ascending; the parts may come in any order.

    Raises:
        UsageError: a part is no number and no ascending range, or a cpu is listed twice.
    """
    cpus: set[int] = set()
    for part in text.split(","):
        numbers = _parse_part(part.strip(), where)
        if again := cpus & numbers:
            raise UsageError(f"{where}: '{text}': cpu {format_cpus(again)} is listed twice")
        cpus |= numbers
    return tuple(sorted(cpus))


def format_cpus(cpus: Iterable[int]) -> str:
    """Write cpu numbers the kernel's way: `0-3,8`."""
    ranges: list[list[int]] = []
    for cpu in sorted(set(cpus)):
        if ranges and cpu == ranges[-1][-1] + 1:
            ranges[-1][1:] = [cpu]
        else:
            ranges.append([cpu])
    return ",".join("-".join(map(str, ends)) for ends in ranges)


def numactl_argv(binding: Binding, numactl: str | None) -> list[str]:
    """What to put in front of a command to bind it; nothing where there is no numactl."""
    if numactl is None:
        return []
    memory = ["-m", format_cpus(binding.memory)] if binding.memory else []
    return [numactl, "-C", format_cpus(binding.cpus), *memory, "--"]


def conflicts(environ: Mapping[str, str]) -> str | None:
    """One line on variables of the user's that place threads too; None when there are none.

    Raises:
        UsageError: KMP_AFFINITY is set: Intel's OpenMP would undo the binding. DeepSpeed
            refuses it as well.
    """
    if environ.get(_REFUSED):
        raise UsageError(
            f"{_REFUSED}={environ[_REFUSED]}: it places threads against the binding of cores;"
            " unset it, or leave out --bind_cores_to_rank"
        )
    kept = [f"{name}={environ[name]}" for name in _KEPT if environ.get(name)]
    if not kept:
        return None
    return f"kept as set: {', '.join(kept)}; threads are placed by that, within the cores bound"


def _parse_part(part: str, where: str) -> set[int]:
    found = _RANGE.fullmatch(part)
    first, last = (int(found[1]), int(found[2] or found[1])) if found else (1, 0)
    if first > last:
        raise UsageError(f"{where}: '{part}': expected cpu numbers, such as '1' or '3-5'")
    return set(range(first, last + 1))


def _listed(cores: Sequence[Core], core_list: str | None) -> Sequence[Core]:
    """The cores cut down to the listed cpus."""
    if core_list is None:
        return cores
    listed = set(parse_core_list(core_list))
    allowed = {cpu for core in cores for cpu in core.cpus}
    if outside := listed - allowed:
        raise UsageError(
            f"--bind_core_list: '{core_list}': cpu {format_cpus(outside)} may not be used here"
            f" (allowed: {format_cpus(allowed)})"
        )
    cut = (core._replace(cpus=tuple(sorted(listed.intersection(core.cpus)))) for core in cores)
    return [core for core in cut if core.cpus]


def _numa_order(cores: Sequence[Core]) -> list[Core]:
    """Node by node, and the nodes of a socket together even where their ids alternate."""
    sockets: dict[int, int] = {}
    for core in cores:
        sockets[core.node] = min(core.package, sockets.get(core.node, core.package))
    return sorted(cores, key=lambda core: (sockets[core.node], core.node, core.cpus))


def _shares(cores: list[Core], workers: int) -> list[list[Core]]:
    shares = []
    start = 0
    for size in _sizes([core.node for core in cores], workers):
        shares.append(cores[start : start + size])
        start += size
    return shares


def _sizes(nodes: Sequence[int], workers: int) -> tuple[int, ...]:
    """How many cores each worker gets, given the NUMA node of each core in turn.

    A share may begin wherever the larger ones before it have pushed it. From the last worker to
    the first, the best sizes from there on are found for every such beginning.
    """
    base, larger = divmod(len(nodes), workers)
    best: dict[int, _Sizes] = {len(nodes): (0, ())}
    for worker in reversed(range(workers)):
        first = worker * base
        starts = range(first, first + min(worker, larger) + 1)
        options = {start: _options(nodes, start, base, best) for start in starts}
        best = {start: min(found, key=_reach) for start, found in options.items() if found}
    return best[0][1]


def _options(
    nodes: Sequence[int], start: int, base: int, best: Mapping[int, _Sizes]
) -> list[_Sizes]:
    """The sizes from a share on, with a larger one here and without, where the rest works out.

    The larger one comes first, so that among equals it goes to the lower rank.
    """
    return [
        (rest[0] + len(set(nodes[start : start + size])), (size, *rest[1]))
        for size in (base + 1, base)
        if (rest := best.get(start + size))
    ]


def _reach(sizes: _Sizes) -> int:
    return sizes[0]


def _binding(share: Sequence[Core], memory_nodes: Collection[int]) -> Binding:
    cpus = tuple(sorted(cpu for core in share for cpu in core.cpus))
    nodes = {core.node for core in share}
    # A rule for memory that names the only node, or one without memory, can but do harm.
    valid = len(nodes) == 1 < len(memory_nodes) and nodes <= set(memory_nodes)
    return Binding(cpus, len(share), tuple(nodes) if valid else ())
