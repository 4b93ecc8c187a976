"""The latest output of a job's workers, up to a limit. Pure.

Blocks are kept as they arrive, and split into lines only on request: a block costs next to
nothing.
"""

from __future__ import annotations

from collections import deque

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    Block = tuple[int, int, bytes]

LIMIT = 64 * 1024
"""Bytes of output that are kept."""

COST = 64
"""Overhead in bytes counted for each block; it limits the number of short blocks."""

LAST = 512
"""Bytes of the latest output that are always kept for each rank, for its last line."""


class Tail:
    """Keeps the latest output.

    Attributes:
        newest: the rank that has written last, None before the first output.
        hosts: the host of each rank when it last wrote.
    """

    def __init__(self, limit: int = LIMIT) -> None:
        """Keep about `limit` bytes, and `LAST` bytes of each rank."""
        self.newest: int | None = None
        self.hosts: dict[int, str] = {}
        self._limit = limit
        self._blocks: deque[Block] = deque()
        self._size = 0
        self._ends: dict[int, tuple[int, bytes]] = {}

    def add(self, rank: int, host: str, stream: int, data: bytes) -> None:
        """Add output of a rank on its stream 1 or 2."""
        self.newest = rank
        self.hosts[rank] = host
        if len(data) < LAST:
            before, known = self._ends.get(rank, (0, b""))
            self._ends[rank] = stream, (known + data if before == stream else data)[-LAST:]
        else:
            self._ends[rank] = stream, data[-LAST:]
        kept = data[-self._limit :]
        self._blocks.append((rank, stream, kept))
        self._size += len(kept) + COST
        while self._size > self._limit + COST:
            self._size -= len(self._blocks.popleft()[2]) + COST

    def blocks(self) -> Iterator[Block]:
        """Yield the kept blocks, oldest first: (rank, stream, bytes)."""
        yield from self._blocks

    def last_line(self, rank: int | None) -> str:
        """Return the latest line of a rank that is not empty; "" if it has written none.

        Of a line that was overwritten, such as a progress bar, return the latest state. Bytes that
        are not UTF-8 are replaced; control characters are left as they are.
        """
        if rank is None or rank not in self._ends:
            return ""
        text = self._ends[rank][1].decode("utf-8", "replace")
        lines = (line.rstrip("\r").rpartition("\r")[2].strip() for line in text.split("\n"))
        return next(filter(None, reversed(list(lines))), "")
