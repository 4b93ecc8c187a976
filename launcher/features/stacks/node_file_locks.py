"""The processes that hold file locks for which others wait, according to the kernel."""

from __future__ import annotations

import re

from ...common.network import lines_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

FILE = "/proc/locks"

_LOCK = re.compile(r"(\d+): ( *-> +)?\w+ +\w+ +\w+ +(-?\d+) ")
"""The number of a lock, whether a process waits for it, and that process or the holder: -1 for an
open file, 0 for a process that is not visible from here (proc(5))."""


def holders() -> dict[int, int]:
    """Return the holder of the lock for each process that waits for one; {} for none."""
    return dict(held(lines_of(FILE)))


def held(lines: Iterable[str]) -> Iterable[tuple[int, int]]:
    """Yield waiting processes, each with the process that it waits for. Pure."""
    holder = 0
    for line in lines:
        match = _LOCK.match(line)
        if match is None:
            continue
        pid = int(match[3])
        if not match[2]:
            holder = pid
        elif pid > 0 and holder > 0:
            yield pid, holder
