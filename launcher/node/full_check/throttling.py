"""How often the cgroups of this process have been stopped because their CPU quota was used up."""

from __future__ import annotations

import os

from ...common.network import lines_of
from ...common.values import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator


class Throttling(NamedTuple):
    """Counters of one cgroup (Linux, Documentation/scheduler/sched-bwc.rst).

    Attributes:
        periods: that have begun while something ran; 0 without a quota.
        throttled: of these, in how many the quota was used up.
    """

    periods: int
    throttled: int


def read(root: str = "/") -> dict[str, Throttling]:
    """Return the counters of this process's cgroup and of all above it, by folder."""
    return {folder: one for folder in _folders(root) if (one := _counters(folder))}


def share(before: dict[str, Throttling], after: dict[str, Throttling]) -> tuple[int, int]:
    """Return periods and throttled periods between two readings, of the cgroup with most."""
    pairs = [(before[one], after[one]) for one in before.keys() & after.keys()]
    spans = [(new.periods - old.periods, new.throttled - old.throttled) for old, new in pairs]
    return max(spans, key=lambda span: span[1], default=(0, 0))


def _folders(root: str) -> Iterator[str]:
    """Yield folders of version 1 and 2 (cgroups(7)), from the process's own to the top."""
    for row in lines_of(f"{root}/proc/self/cgroup"):
        _, controllers, path = row.split(":", 2)
        if controllers and "cpu" not in controllers.split(","):
            continue
        mounts = (controllers, "cpu") if controllers else ("unified", "")
        mount = next((m for m in mounts if os.path.isdir(f"{root}/sys/fs/cgroup/{m}")), "")
        while True:
            yield os.path.normpath(f"{root}/sys/fs/cgroup/{mount}/{path}")
            if path in {"/", ""}:
                break
            path = os.path.dirname(path)


def _counters(folder: str) -> Throttling | None:
    rows = dict(row.split(" ", 1) for row in lines_of(f"{folder}/cpu.stat") if " " in row)
    try:
        return Throttling(int(rows["nr_periods"]), int(rows["nr_throttled"]))
    except (KeyError, ValueError):
        return None
