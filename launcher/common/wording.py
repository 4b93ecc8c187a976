"""Phrases that many messages share. Pure."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


ANOTHER_PYTHON = "(install it there, or name another with --python)"
"""A part of each message about a node whose Python cannot be used."""


def counted(number: int, noun: str) -> str:
    """Return a number with its noun, such as `1 node` or `2 nodes`."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def ranks_up_to(count: int, noun: str) -> str:
    """Return the valid ranks, given their number, such as `there are 2 nodes, 0 to 1`."""
    if count == 1:
        return f"there is only {noun} 0"
    return f"there are {count} {noun}s, 0 to {count - 1}"


def either(words: Sequence[str]) -> str:
    """Return a list in words, such as `a`, `a or b`, `a, b or c`."""
    *some, last = words
    return f"{', '.join(some)} or {last}" if some else last
