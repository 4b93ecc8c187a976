"""Counts of processes that the kernel has ended for lack of memory, here and in our cgroups."""

from __future__ import annotations

from ...common.network import lines_of
from ...common.records import NamedTuple
from ...node.machine.capacity import cgroups

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

COUNTERS = ("memory.events", "memory.oom_control")
"""Files of cgroups with a line `oom_kill N` (cgroup-v2.rst; cgroup-v1/memory.rst)."""

LIMITS = ("memory.max", "memory.limit_in_bytes")


class Kills(NamedTuple):
    """Counters of such ends.

    Attributes:
        machine: the count of the whole machine since boot.
        cgroups: the count of each cgroup of this process, by folder, from the innermost outwards.
    """

    machine: int
    cgroups: Mapping[str, int]


def kills(root: str = "/") -> Kills:
    """Return the counters as of now."""
    found = {
        folder: count
        for folder in cgroups("memory", root)
        for name in COUNTERS
        if (count := _count(f"{folder}/{name}")) is not None
    }
    return Kills(_count(f"{root}proc/vmstat") or 0, found)


def risen(before: Kills, after: Kills) -> str:
    """Return the innermost cgroup with more ends than before, or ""."""
    known = before.cgroups
    return next((one for one, count in after.cgroups.items() if count > known.get(one, count)), "")


def limit(folder: str) -> int:
    """Return the memory limit of a cgroup in bytes, 0 for none."""
    texts = [line for name in LIMITS for line in lines_of(f"{folder}/{name}")[:1]]
    found = [int(text) for text in texts if text.isdecimal()]
    return min((one for one in found if one < 1 << 60), default=0)


def _count(path: str) -> int | None:
    for line in lines_of(path):
        name, _, value = line.partition(" ")
        if name == "oom_kill" and value.isdecimal():
            return int(value)
    return None
