"""Splits the workers' output into complete lines, and finds matches. Pure."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from re import Match, Pattern

LIMIT = 4096
"""Bytes of a line that count; the rest is ignored, as it costs memory and time."""


class OutputLines:
    """Joins the blocks of each rank and stream into lines.

    A carriage return ends a line as well: so each state of a progress bar is one.
    """

    def __init__(self) -> None:
        self._begun: dict[tuple[int, int], bytes] = {}

    def add(self, rank: int, stream: int, data: bytes) -> bytes:
        """Return the lines that this block completes, each with its end."""
        data = data.replace(b"\r", b"\n")
        end = data.rfind(b"\n") + 1
        begun = self._begun.pop((rank, stream), b"")
        rest = data[end : end + LIMIT] if end else (begun + data[:LIMIT])[:LIMIT]
        if rest:
            self._begun[rank, stream] = rest
        return _bounded(begun + data[:end]) if end else b""

    def clear(self) -> None:
        """Forget incomplete lines: their workers are gone."""
        self._begun.clear()


def _bounded(text: bytes) -> bytes:
    """Return lines, each limited to the part that counts."""
    if len(text) > LIMIT:
        lines = text.split(b"\n")
        if max(map(len, lines)) > LIMIT:
            return b"\n".join(line[:LIMIT] for line in lines)
    return text


def matches(pattern: Pattern[bytes], lines: bytes) -> Sequence[Match[bytes]]:
    """Return the matches of a pattern with MULTILINE, never across the end of a line.

    All lines are searched at once; one by one only if the matches could differ.
    """
    found = list(pattern.finditer(lines))
    alone = rb"\A" in pattern.pattern or rb"\Z" in pattern.pattern
    if alone or any(b"\n" in one.group() for one in found):
        each = (pattern.search(line) for line in lines.split(b"\n")[:-1])
        return [one for one in each if one]
    return found


def line_of(match: Match[bytes]) -> str:
    """Return the line of a match as text."""
    text = match.string
    end = text.find(b"\n", match.end())
    line = text[text.rfind(b"\n", 0, match.start()) + 1 : end if end >= 0 else len(text)]
    return line.decode("utf-8", "replace").strip()
