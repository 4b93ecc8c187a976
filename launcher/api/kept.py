"""The newest output of a job, kept for a program that asks for it later. Pure."""

from __future__ import annotations

LIMIT = 16 << 20
"""Bytes of output that are kept of a job."""


class KeptOutput:
    """Keeps the newest output of each rank and stream, all together within a limit."""

    def __init__(self, limit: int = LIMIT) -> None:
        self._limit = limit
        self._size = 0
        self._kept: dict[tuple[int, int], bytearray] = {}

    def add(self, rank: int, stream: int, data: bytes) -> None:
        """Add a block; beyond the limit the longest output loses its older half."""
        self._kept.setdefault((rank, stream), bytearray()).extend(data)
        self._size += len(data)
        while self._size > self._limit:
            longest = max(self._kept.values(), key=len)
            half = (len(longest) + 1) // 2
            cut = longest.find(b"\n", half, -1) + 1 or half
            del longest[:cut]
            self._size -= cut

    def text(self, rank: int, stream: int) -> str:
        """Return what is kept of a rank's stream."""
        return self._kept.get((rank, stream), b"").decode("utf-8", "replace")
