"""Counts of stops of this process's cgroups because their CPU quota was used up."""

from __future__ import annotations

from ...common.network import lines_of
from ...common.records import NamedTuple
from ...node.machine.capacity import cgroups


class Throttling(NamedTuple):
    """Counters of one cgroup (Linux, Documentation/scheduler/sched-bwc.rst).

    Attributes:
        periods: the periods in which something ran; 0 without a quota.
        throttled: the number of these in which the quota was used up.
        seconds: the time for which runnable threads were stopped, summed over CPUs.
    """

    periods: int
    throttled: int
    seconds: float


def read(root: str = "/") -> dict[str, Throttling]:
    """Return the counters of this process's cgroup and of all above it, by folder."""
    return {folder: one for folder in cgroups("cpu", root) if (one := _counters(folder))}


def share(before: dict[str, Throttling], after: dict[str, Throttling]) -> tuple[int, int]:
    """Return periods and throttled periods between two readings, of the cgroup with most."""
    pairs = [(before[one], after[one]) for one in before.keys() & after.keys()]
    spans = [(new.periods - old.periods, new.throttled - old.throttled) for old, new in pairs]
    return max(spans, key=lambda span: span[1], default=(0, 0))


def seconds(before: dict[str, Throttling], after: dict[str, Throttling]) -> float:
    """Return the seconds between two readings, of the cgroup with most."""
    return max(
        (after[one].seconds - before[one].seconds for one in before if one in after), default=0.0
    )


def _counters(folder: str) -> Throttling | None:
    rows = dict(row.split(" ", 1) for row in lines_of(f"{folder}/cpu.stat") if " " in row)
    try:
        nanoseconds = int(rows.get("throttled_time", 0)) + 1000 * int(rows.get("throttled_usec", 0))
        return Throttling(int(rows["nr_periods"]), int(rows["nr_throttled"]), nanoseconds / 1e9)
    except (KeyError, ValueError):
        return None
