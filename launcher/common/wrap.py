"""Breaks dsrun's own lines at spaces for a terminal, which would break them within words. Pure."""

from __future__ import annotations

import re

_PIECES = re.compile(r" *(?:`[^`\n]*`|[^ ])+")
"""A word, or a command in backquotes, with the spaces before it."""

_OWN = re.compile(r"dsrun: |  [^ ]")
"""A pattern for the beginning of dsrun's lines; program output in a report is indented more."""


def wrapped(text: str, width: int) -> str:
    """Return text with its own lines broken at spaces to at most this number of columns."""
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
