"""The order of nodes by blocks of the network, and segments that lie within one block.

A block is a group of hosts with a fast network between them: an NVLink domain, or the hosts of one
leaf switch. A segment is a number of nodes in a row, as for Slurm's `--segment`: if each is within
a block, ranks of one segment reach each other over that network.
Pure, but for names of hosts that only Slurm knows.
"""

from __future__ import annotations

from itertools import groupby

from ..common.errors import UsageError
from ..common.wording import counted
from ..specs.host import listing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ..specs.host import Host


def by_blocks(hosts: Iterable[Host], names: Sequence[str] = (), segment: int = 0) -> list[Host]:
    """Return hosts with each block's hosts in a row, and whole segments before the other nodes.

    Args:
        hosts: the hosts in the order that they keep within their blocks.
        names: the blocks in their order; other blocks follow in the order of their first hosts.
        segment: the number of nodes of a segment, 0 for none.
    """
    blocks: dict[str, list[Host]] = {name: [] for name in names}
    for host in hosts:
        blocks.setdefault(host.block, []).append(host)
    alone = blocks.pop("", [])
    rest: list[Host] = []
    ordered: list[Host] = []
    for block in blocks.values():
        end = len(block) // segment * segment if segment else len(block)
        ordered += block[:end]
        rest += block[end:]
    return [*ordered, *rest, *alone]


def as_listed(hosts: Sequence[Host], listed: Sequence[Host], source: str) -> list[Host]:
    """Return hosts in the order of a list that names each of them once.

    A block in the list replaces the host's block.

    Args:
        hosts: the hosts of the job.
        listed: the list; each of its hosts has the place that names it.
        source: the source of `hosts`, for errors.

    Raises:
        UsageError: the list is no permutation of the hosts.
    """
    known = {host.name.lower(): host for host in hosts}
    ordered = []
    for one in listed:
        host = known.pop(one.name.lower(), None) or known.pop(_other_name(one.name, known), None)
        if host is None:
            there = listing(hosts, one.name)
            raise UsageError(f"{one.where}: no host {one.name!r} ({source} has {there})")
        if one.times > 1:
            raise UsageError(f"{one.where}: {one.name} is listed {one.times} times")
        ordered.append(host._replace(block=one.block or host.block))
    if known:
        place = listed[0].where.rpartition(":")[0]
        names = listing(known.values())
        raise UsageError(f"{place}: lacks {names}; a rank order names each host once")
    return ordered


def _other_name(name: str, known: Mapping[str, Host]) -> str:
    """Return the key of the host with this other name, or ""."""
    from .aliases import meant

    return meant([name], known).get(name, "")


def check_segments(hosts: Sequence[Host], segment: int) -> None:
    """Check that all segments of some nodes lie within blocks.

    Raises:
        UsageError: a segment extends over several blocks.
    """
    flag = f"--segment {segment}"
    unknown = [host for host in hosts if not host.block]
    if unknown:
        raise UsageError(
            f"{flag}: the block of {listing(unknown)} is not known; write block=NAME in the"
            " hostfile, or use --rank_order slurm"
        )
    whole = len(hosts) // segment * segment
    for start in range(0, whole, segment):
        part = hosts[start : start + segment]
        blocks = [name for name, _ in groupby(host.block for host in part)]
        if len(blocks) > 1:
            raise UsageError(
                f"{flag}: nodes {start} to {start + segment - 1} ({listing(part)}) are in blocks"
                f" {', '.join(blocks)}{_advice(hosts, segment)}"
            )
    if whole < len(hosts):
        number = counted(len(hosts), "node")
        raise UsageError(f"{flag}: {number} are not a multiple of it{_advice(hosts, segment)}")


def _advice(hosts: Sequence[Host], segment: int) -> str:
    sizes: dict[str, int] = {}
    for host in hosts:
        sizes[host.block] = sizes.get(host.block, 0) + 1
    fit = sum(size // segment * segment for size in sizes.values())
    return f"; {fit} nodes fit: --num_nodes {fit}" if fit else "; no block has that many nodes"
