"""What work costs, in measures that do not depend on how busy or how fast the machine is."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

TIMES = 16
"""How much larger the larger input is."""

LINEAR = 4 * TIMES
"""What grows at most in proportion to its input, or a little faster (sorting), stays below this."""

_RUNS = 5


def growth(work: Callable[[int], object], size: int) -> float:
    """Return how many times more CPU time the work takes for an input `TIMES` as large.

    The least of several runs counts, of each size. The smaller input should take a millisecond.
    """
    return _least(work, TIMES * size) / _least(work, size)


def _least(work: Callable[[int], object], size: int) -> float:
    return min(_cpu_seconds(work, size) for _ in range(_RUNS))


def _cpu_seconds(work: Callable[[int], object], size: int) -> float:
    began = time.process_time()
    work(size)
    return time.process_time() - began


def calls(work: Callable[[], object]) -> int:
    """Return how many functions the work calls in this thread, those of C included."""
    count = 0

    def note(_frame: object, event: str, _argument: object) -> None:
        nonlocal count
        count += event in {"call", "c_call"}

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(before)
    return count
