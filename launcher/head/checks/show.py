"""Findings as lines. Pure."""

from __future__ import annotations

from ..fleet.hosts import some_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from .findings import Finding

MOST = 5
"""Lines for one kind of finding; the rest are counted."""


def lines(found: Sequence[Finding]) -> list[str]:
    """Return a line for each finding, and one for the rest of a kind that has too many."""
    shown: dict[str, list[str]] = {}
    for one in found:
        shown.setdefault(one.code, []).append(line(one))
    return [text for code, texts in shown.items() for text in _shortened(code, texts)]


def line(one: Finding) -> str:
    """Return a finding as one line: which nodes, what, against what, and what to do."""
    return f"check: {some_of(one.nodes)}: {one.text}; {one.advice}"


def _shortened(code: str, texts: Sequence[str]) -> Sequence[str]:
    rest = len(texts) - MOST
    if rest <= 0:
        return texts
    return [*texts[:MOST], f"check: {rest} more findings of this kind ({code})"]
