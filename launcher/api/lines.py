"""Puts the output of ranks together to lines. Pure."""

from __future__ import annotations

from ..head.output.labels import LONGEST
from .events import Output


class Lines:
    """Puts the blocks of each rank and stream together to lines, of which no byte is lost.

    A carriage return ends a line as well: so each state of a progress bar is one. A line of more
    than `LONGEST` bytes comes in pieces.
    """

    def __init__(self) -> None:
        self._begun: dict[tuple[int, int], bytearray] = {}

    def add(self, rank: int, stream: int, data: bytes) -> list[bytes]:
        """Return the lines that this block completes, each with its end."""
        begun = self._begun.setdefault((rank, stream), bytearray())
        may_end = begun.endswith(b"\r") or b"\n" in data or b"\r" in data
        begun += data
        if not may_end and len(begun) <= LONGEST:
            return []
        lines = bytes(begun).splitlines(keepends=True)
        begun.clear()
        # What ends with a carriage return may go on with a line feed.
        if not lines[-1].endswith(b"\n") and len(lines[-1]) <= LONGEST:
            begun += lines.pop()
        return lines

    def rest(self) -> list[Output]:
        """Return the lines that have begun, and will not go on."""
        begun, self._begun = self._begun, {}
        return [Output(rank, stream, bytes(data)) for (rank, stream), data in begun.items() if data]
