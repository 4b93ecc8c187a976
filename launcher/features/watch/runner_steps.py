"""The steps of a job, from lines such as "step 12", with the rank and time of each. Pure.

A line counts if it is the third with its words in which a whole number has grown by a constant
amount: words and number are then a series, and lines of several ranks with equal values match.
"""

from __future__ import annotations

import re

from ...common.records import NamedTuple

LONGEST = 200
"""Bytes of a line that are read."""

MOST_LINES = 64
"""Lines of one block that are read, the last ones."""

MOST_SHAPES = 64
"""Most different lines of a rank to remember."""

MOST_VALUES = 256
"""Number of values of a series whose first time is remembered."""

_NO_COUNTS = re.compile(
    rb"\d{4}-\d\d-\d\d|\d\d?:\d\d(?::\d\d)?(?:[.,]\d+)?|\d*\.\d+(?:e[+-]?\d+)?|\d+%"
)
"""Dates, times, fractions and percentages."""

_NUMBER = re.compile(rb"\d+")


class Shape(NamedTuple):
    """The newest line with certain words: its numbers, and their growth."""

    numbers: tuple[int, ...]
    growth: tuple[int, ...]


class Mark(NamedTuple):
    """The newest value of a series that a rank printed.

    Attributes:
        every: the step by which the value grows.
        printed: the number of values that the rank printed.
        lag: seconds after the first rank with this value.
    """

    value: int
    every: int
    printed: int
    lag: float


class Series:
    """The values of one series."""

    def __init__(self) -> None:
        self.marks: dict[int, Mark] = {}
        self._first: dict[int, float] = {}

    def add(self, rank: int, value: int, every: int, now: float) -> None:
        """Record that a rank has printed a value."""
        first = self._first.setdefault(value, now)
        if len(self._first) > MOST_VALUES:
            del self._first[next(iter(self._first))]
        known = self.marks.get(rank)
        self.marks[rank] = Mark(value, every, known.printed + 1 if known else 1, now - first)

    @property
    def count(self) -> int:
        """The largest number of values that a rank has printed."""
        return max((mark.printed for mark in self.marks.values()), default=0)

    def lags(self, now: float) -> dict[int, float]:
        """Return by how many seconds each rank is behind the first one."""
        return {rank: self._lag(mark, now) for rank, mark in self.marks.items()}

    def _lag(self, mark: Mark, now: float) -> float:
        due = self._first.get(mark.value + mark.every, now)
        return max(mark.lag, now - due)


class Steps:
    """Reads the output of all ranks."""

    def __init__(self) -> None:
        self._rests: dict[tuple[int, int], bytes] = {}
        self._shapes: dict[int, dict[bytes, Shape]] = {}
        self._series: dict[tuple[bytes, int], Series] = {}

    def feed(self, rank: int, stream: int, data: bytes, now: float) -> None:
        """Read a block, which may end within a line."""
        text = self._rests.get((rank, stream), b"") + data
        *lines, rest = text.replace(b"\r", b"\n").split(b"\n")
        self._rests[rank, stream] = rest[:LONGEST]
        for line in lines[-MOST_LINES:]:
            self._read(rank, line[:LONGEST], now)

    def _read(self, rank: int, line: bytes, now: float) -> None:
        words = _NO_COUNTS.sub(b"", line)
        numbers = tuple(map(int, _NUMBER.findall(words)))
        shapes = self._shapes.setdefault(rank, {})
        words = _NUMBER.sub(b"#", words)
        known = shapes.pop(words, Shape(numbers, (0,) * len(numbers)))
        growth = tuple(new - old for new, old in zip(numbers, known.numbers, strict=True))
        shapes[words] = Shape(numbers, growth)
        if len(shapes) > MOST_SHAPES:
            del shapes[next(iter(shapes))]
        for column, (now_by, before_by) in enumerate(zip(growth, known.growth, strict=True)):
            if now_by == before_by > 0:
                series = self._of((words, column))
                series.add(rank, numbers[column], now_by, now)
                return

    def _of(self, name: tuple[bytes, int]) -> Series:
        series = self._series.setdefault(name, Series())
        if len(self._series) > MOST_SHAPES:
            del self._series[min(self._series, key=lambda one: self._series[one].count)]
        return series

    @property
    def count(self) -> int:
        """The number of steps that the job has made."""
        return max((one.count for one in self._series.values()), default=0)

    @property
    def best(self) -> Series:
        """The longest series of those with most ranks; empty without any."""
        every = self._series.values()
        return max(every, key=lambda one: (len(one.marks), one.count), default=Series())
