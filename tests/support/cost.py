"""What work costs, counted: no clock takes part, so a busy machine changes nothing."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

TIMES = 16
"""How much larger the larger input is."""

LINEAR = 2 * TIMES
"""What grows at most in proportion to its input, or a little faster (sorting), stays below this."""

_PER_LINE = 32
"""So many elements or bytes that a function of C walks through count as one line."""

_WALKS = frozenset({
    *("capitalize", "casefold", "count", "decode", "encode", "expandtabs", "hex", "isalnum"),
    *("isascii", "isdecimal", "isdigit", "isprintable", "join", "lower", "partition", "replace"),
    *("rpartition", "rsplit", "split", "splitlines", "swapcase", "title", "translate", "upper"),
    *("copy", "difference", "index", "insert", "intersection", "remove", "sort", "union"),
})  # fmt: skip
"""Methods that look at the whole of their object, or at all before the place that they search."""


def growth(work: Callable[[int], object], size: int) -> float:
    """Return how many times more the work costs for an input `TIMES` as large.

    Regular expressions and other C code that is not a method count as one call, however long they
    take: see `tests/support/regex_steps.py`.
    """
    work(2 * size)  # imports what it needs
    return lines(lambda: work(TIMES * size)) / lines(lambda: work(size))


def lines(work: Callable[[], object]) -> float:
    """Return how many lines of Python the work executes in this thread, with its calls of C."""
    count = 0.0

    def line(_frame: FrameType, event: str, _argument: object) -> Any:
        nonlocal count
        count += event == "line"
        return line

    def call(_frame: FrameType, event: str, function: object) -> None:
        nonlocal count
        if event == "c_call":
            count += 1 + _walked(function) / _PER_LINE

    before = sys.gettrace(), sys.getprofile()
    sys.settrace(line)
    sys.setprofile(call)
    try:
        work()
    finally:
        sys.settrace(before[0])
        sys.setprofile(before[1])
    return count


def _walked(function: object) -> int:
    owner = getattr(function, "__self__", None)
    if isinstance(owner, str | bytes | bytearray | list | dict | set):
        return len(owner) * (getattr(function, "__name__", "") in _WALKS)
    return 0


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
