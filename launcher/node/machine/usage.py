"""USAGE: the resources used by the workers on this node, their descendants and the whole machine.

Everything is read from /proc at once when the runner asks, and nothing is kept between two answers.
"""

from __future__ import annotations

import os
from contextlib import suppress

from ...common import system
from ...common.records import NamedTuple
from ...control.job_messages import RankUsage, Usage
from . import processes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

_TICK = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")

# Fields of /proc/PID/stat, counted from the state on (proc(5) counts it as field 3).
_STATE, _PARENT, _CPU, _RESIDENT = 0, 1, slice(11, 15), 21


class Use(NamedTuple):
    """The resources used by one process.

    Attributes:
        state: the kernel's letter for its state.
        cpu: seconds of CPU time, including reaped children.
        memory: resident bytes.
    """

    parent: int
    state: str
    cpu: float
    memory: int


def usage(workers: Iterable[tuple[int, int]]) -> Usage:
    """Return the usage, without devices, of these workers (rank, pid), and of this machine."""
    table = read_processes()
    below = by_parent(table)
    rows = tuple(_of_rank(rank, pid, table, below) for rank, pid in workers)
    total, used = memory()
    cores = os.cpu_count() or 1
    return Usage(system.monotonic(), cores, system.getloadavg()[0], total, used, rows, ())


def read_processes() -> dict[int, Use]:
    """Return the usage of every visible process, by pid."""
    table = {}
    for pid in processes.pids():
        with suppress(OSError):  # it has ended meanwhile
            table[pid] = _use(processes.stat(pid))
    return table


def _use(fields: list[str]) -> Use:
    cpu = sum(map(int, fields[_CPU])) / _TICK
    return Use(int(fields[_PARENT]), fields[_STATE], cpu, int(fields[_RESIDENT]) * _PAGE)


def by_parent(table: Mapping[int, Use]) -> dict[int, list[int]]:
    """Return the children of each process that has children."""
    below: dict[int, list[int]] = {}
    for pid, use in table.items():
        below.setdefault(use.parent, []).append(pid)
    return below


def _of_rank(
    rank: int, pid: int, table: Mapping[int, Use], below: Mapping[int, list[int]]
) -> RankUsage:
    if pid not in table:
        return RankUsage(rank, pid, "", 0.0, 0, 0)
    uses = [table[one] for one in family(pid, below)]
    cpu, held = sum(one.cpu for one in uses), sum(one.memory for one in uses)
    return RankUsage(rank, pid, table[pid].state, round(cpu, 2), held, len(uses))


def family(pid: int, below: Mapping[int, list[int]]) -> Iterator[int]:
    """Yield a process and all its descendants."""
    waiting = [pid]
    while waiting:
        one = waiting.pop()
        yield one
        waiting += below.get(one, ())


def memory(path: str = "/proc/meminfo") -> tuple[int, int]:
    """Return (all bytes of memory, those not available to programs), zeros if unknown."""
    facts = {}
    with suppress(OSError), system.open_file(path, encoding="ascii") as file:
        for line in file:
            name, _, rest = line.partition(":")
            facts[name] = int(rest.split()[0]) * 1024
    total = facts.get("MemTotal", 0)
    return total, total - facts.get("MemAvailable", total)
