"""Which worlds reach the places of old faults: only these can tell that one of them is back.

The places are marked in a copy of the checkout: each then tells that it is reached.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from .old_faults import OLD_FAULTS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

REACHED: set[str] = set()
"""The faults whose places the world that is being played has reached."""

MARK = "from tests.simulation.reached import REACHED; REACHED.add({bug!r})"


def mark_all(copy: Path) -> None:
    """Mark the places of all faults in a copy of the checkout."""
    places: dict[str, list[tuple[str, str]]] = {}
    for bug, replacements in OLD_FAULTS.items():
        for one in replacements:
            places.setdefault(one.module, []).append((bug, one.text))
    for module, texts in places.items():
        path = copy / module
        path.write_text(marked(path.read_text(), texts))


def marked(source: str, texts: list[tuple[str, str]]) -> str:
    """Return the source of a module with a mark before the statement in which each text begins."""
    lines = source.splitlines(keepends=True)
    statements = [one for one in ast.walk(ast.parse(source)) if isinstance(one, ast.stmt)]
    marks = [
        (*_place(statements, lines, _line(source, text)), MARK.format(bug=bug))
        for bug, text in texts
    ]
    for line, indent, mark in sorted(marks, reverse=True):
        lines.insert(line - 1, f"{' ' * indent}{mark}\n")
    return "".join(lines)


def _line(source: str, text: str) -> int:
    """Return the number of the line in which a text begins, blanks left aside."""
    before = source.index(text) + len(text) - len(text.lstrip())
    return source.count("\n", 0, before) + 1


def _place(statements: list[ast.stmt], lines: list[str], line: int) -> tuple[int, int]:
    """Return the line of the innermost statement around a line, and its indentation."""
    around = (one for one in _can_follow(statements, lines) if one.lineno <= line)
    ends = [one for one in around if line <= (one.end_lineno or 0)]
    inner = max(ends, key=lambda one: one.lineno)
    if isinstance(inner, ast.FunctionDef):
        inner = inner.body[0]
    return inner.lineno, inner.col_offset


def _can_follow(statements: list[ast.stmt], lines: list[str]) -> Iterator[ast.stmt]:
    """Yield the statements before which another one may stand: all but those of `elif`."""
    for one in statements:
        if not lines[one.lineno - 1].lstrip().startswith("elif "):
            yield one
