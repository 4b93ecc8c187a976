"""Breaks dsrun's own lines at spaces for a terminal, which would break them within words. Pure."""

from __future__ import annotations

import re

_PIECES = re.compile(r" *(?:`[^`\n]*`|[^ ])+")
"""A word, or a command in backquotes, with the spaces before it."""

_OWN = re.compile(r"dsrun: |  [^ ]")
"""How lines of dsrun begin; a program's output in the report is indented further."""


def wrapped(text: str, width: int) -> str:
    """Return text whose own lines have at most so many columns, as far as they have spaces."""
    return "\n".join(
        _broken(line, width) if len(line) > width and _OWN.match(line) else line
        for line in text.split("\n")
    )


def _broken(line: str, width: int) -> str:
    """Return a line in several; those after the first are indented by two columns more."""
    indent = " " * (len(line) - len(line.lstrip(" ")) + 2)
    rows = [""]
    for piece in _PIECES.findall(line.rstrip(" ")):  # each run of spaces is before a word
        if rows[-1].strip() and len(rows[-1]) + len(piece) > width:
            rows.append(indent + piece.lstrip(" "))
        else:
            rows[-1] += piece
    return "\n".join(rows)
