"""Pieces of text that many messages share. Pure."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


ANOTHER_PYTHON = "(--python names another)"
"""In each reason of a node whose Python cannot be used."""


def counted(number: int, noun: str) -> str:
    """Return e.g. `1 node` or `2 nodes`."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def either(words: Sequence[str]) -> str:
    """Return e.g. `a`, `a or b`, `a, b or c`."""
    *some, last = words
    return f"{', '.join(some)} or {last}" if some else last
