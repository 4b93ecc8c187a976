"""Matrices of values between nodes as a picture (SVG 1.1). Pure."""

from __future__ import annotations

from colorsys import hls_to_rgb
from html import escape
from math import log2

from .runner_matrix import BAD, folded, number

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from .runner_matrix import Matrix
    from .runner_steps import MeasuredFault

MOST = 64
"""Rows of a picture; with more nodes, neighbours share one."""

SIDE, SMALL_SIDE = 44, 14
"""Pixels of a cell with its value, and of one without."""

FEW = 16
"""The largest number of rows with which cells show their values."""

LETTER, LINE, MARGIN = 7, 20, 16
"""Pixels of a letter, of a line of text, and at the border."""

STYLE = "text{font:12px sans-serif;fill:#222}.t{font-weight:bold}.v{text-anchor:middle}"


def draw(matrices: Sequence[Matrix], faults: Sequence[MeasuredFault]) -> str:
    """Return a picture with all matrices one below the other, and the faults below them."""
    parts: list[str] = []
    top, width = MARGIN, 0
    for matrix in matrices:
        small = folded(matrix, MOST)
        parts += _matrix(small, top)
        top += _height(small) + MARGIN
        width = max(width, _width(small))
    said = [f"{', '.join(fault.nodes)}: {fault.text}" for fault in faults]
    for text in said or ["no node and no link is worse than the others"]:
        top += LINE
        parts.append(_text(MARGIN, top, text))
        width = max(width, MARGIN + LETTER * len(text))
    width, top = width + MARGIN, top + MARGIN
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{top}">'
    background = '<rect width="100%" height="100%" fill="#fff"/>'
    return "\n".join([head, f"<style>{STYLE}</style>", background, *parts, "</svg>", ""])


def _side(matrix: Matrix) -> int:
    return SIDE if len(matrix.names) <= FEW else SMALL_SIDE


def _left(matrix: Matrix) -> int:
    return MARGIN + LETTER * max(map(len, matrix.names), default=0) + 8


def _above(matrix: Matrix) -> int:
    """Return the pixels of the title and, if names fit above the columns, of these."""
    longest = max(map(len, matrix.names), default=0)
    return 2 * LINE if longest * LETTER <= _side(matrix) else LINE


def _height(matrix: Matrix) -> int:
    return _above(matrix) + _side(matrix) * len(matrix.names)


def _width(matrix: Matrix) -> int:
    cells = _left(matrix) + _side(matrix) * len(matrix.names)
    return max(cells, MARGIN + LETTER * len(matrix.title))


def _matrix(matrix: Matrix, top: int) -> Iterator[str]:
    side, left, above = _side(matrix), _left(matrix), _above(matrix)
    yield _text(MARGIN, top + 12, matrix.title, "t")
    for row, one in enumerate(matrix.names):
        y = top + above + row * side
        yield _text(MARGIN, y + side // 2 + 4, one)
        if above > LINE:
            yield _text(left + row * side + side // 2, top + above - 6, one, "v")
        for column, other in enumerate(matrix.names):
            yield _cell(matrix, one, other, left + column * side, y)


def _cell(matrix: Matrix, one: str, other: str, x: int, y: int) -> str:
    """Return a square that tells its value to a pointer that rests on it."""
    side, value = _side(matrix), matrix.values.get((one, other))
    shown = "" if value is None else number(value)
    where = escape(f"{one} to {other}: {shown or 'not measured'}")
    square = (
        f'<rect x="{x}" y="{y}" width="{side - 1}" height="{side - 1}" '
        f'fill="{_colour(matrix, value)}"><title>{where}</title></rect>'
    )
    if not shown or side == SMALL_SIDE:
        return square
    return square + _text(x + side // 2, y + side // 2 + 4, shown, "v")


def _colour(matrix: Matrix, value: float | None) -> str:
    """Return green for the median and better, red for `BAD`, grey for nothing."""
    if value is None:
        return "#eee"
    level = log2(max(1.0, min(BAD, matrix.badness(value)))) / log2(BAD)
    parts = hls_to_rgb((1 - level) / 3, 0.7, 0.65)
    return "#" + "".join(f"{round(255 * part):02x}" for part in parts)


def _text(x: int, y: int, text: str, style: str = "") -> str:
    kind = f' class="{style}"' if style else ""
    return f'<text x="{x}" y="{y}"{kind}>{escape(text)}</text>'
