"""Values between nodes, one row and one column each, as text. Pure."""

from __future__ import annotations

from math import ceil

from ...common.records import NamedTuple
from ...head.output.fold import ranges

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from .runner_pairs import Pair

CELL = 8
"""Columns of the terminal for a value; a longer name above it is replaced by a number."""

LABEL = 24
"""The most columns for the name of a row."""

POOR, BAD = 2.0, 4.0
"""Values that are worse than the median by these factors are marked."""

YELLOW, RED, PLAIN = "\x1b[33m", "\x1b[31m", "\x1b[0m"


class Matrix(NamedTuple):
    """Values from each node (row) to each other node (column).

    Attributes:
        title: the quantity, with its unit.
        names: the nodes, in order.
        values: the values by node and other node; unmeasured values are missing.
        low: whether low values are good.
    """

    title: str
    names: tuple[str, ...]
    values: Mapping[Pair, float]
    low: bool = False

    @property
    def usual(self) -> float:
        """The median, to which values are compared."""
        ordered = sorted(self.values.values())
        return ordered[(len(ordered) - 1) // 2] if ordered else 0.0

    def badness(self, value: float) -> float:
        """Return by which factor a value is worse than the median; below 1 if it is better."""
        worse, better = (value, self.usual) if self.low else (self.usual, value)
        return worse / max(better, 1e-12)


def folded(matrix: Matrix, most: int) -> Matrix:
    """Return a matrix of groups of neighbours with the worst value of each, if there are more."""
    if len(matrix.names) <= most:
        return matrix
    size = ceil(len(matrix.names) / max(1, most))
    parts = [matrix.names[at : at + size] for at in range(0, len(matrix.names), size)]
    labels = {name: _label(part) for part in parts for name in part}
    values: dict[Pair, float] = {}
    worst: Callable[[float, float], float] = max if matrix.low else min
    for (one, other), value in matrix.values.items():
        place = labels[one], labels[other]
        values[place] = worst(values.get(place, value), value)
    title = f"{matrix.title}, the worst of each {size} x {size} nodes"
    return Matrix(title, tuple(map(_label, parts)), values, matrix.low)


def _label(names: Sequence[str]) -> str:
    text = ranges(names)
    return f"{names[0]}..{names[-1]}" if "," in text else text


def number(value: float) -> str:
    """Return a value with three digits, or all that are before the point."""
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def lines(matrix: Matrix, width: int, *, colour: bool) -> list[str]:
    """Return the title, the column heads and a line for each row, within this width."""
    small = folded(matrix, max(2, (width - LABEL - 4) // CELL))
    numbered = any(len(name) > CELL - 2 for name in small.names)
    heads = [f"{at}" if numbered else name for at, name in enumerate(small.names, 1)]
    rows = [f"{at:>3} {name}" if numbered else name for at, name in enumerate(small.names, 1)]
    room = min(LABEL + 4, max(map(len, rows), default=0))
    first = " " * room + "".join(f"{head:>{CELL}}" for head in heads)
    cells = [
        "".join(_cell(small, one, other, colour) for other in small.names) for one in small.names
    ]
    below = [f"{row[:room]:<{room}}{some}" for row, some in zip(rows, cells, strict=True)]
    return [small.title, first, *below]


def _cell(matrix: Matrix, one: str, other: str, colour: bool) -> str:
    value = matrix.values.get((one, other))
    if value is None:
        return f"{'-' if one == other else '?':>{CELL}}"
    text = f"{number(value):>{CELL}}"
    badness = matrix.badness(value)
    if not colour or badness < POOR:
        return text
    return f"{RED if badness >= BAD else YELLOW}{text}{PLAIN}"
