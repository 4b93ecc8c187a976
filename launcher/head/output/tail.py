"""The newest output of a job's workers, within a bound. Pure.

Blocks are kept as they arrive and split into lines only when somebody asks, so that this costs next
to nothing for each block.
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
"""Bytes that a block counts beyond its own: of many short ones, fewer are kept."""

LAST = 512
"""Bytes of its newest output that are kept of each rank in any case, for its last line."""


class Tail:
    """Keeps the newest output.

    Attributes:
        newest: the rank that has written last, None before the first output.
        hosts: where each rank that has written was at that time.
    """

    def __init__(self, limit: int = LIMIT) -> None:
        """Keep about `limit` bytes, and `LAST` of each rank."""
        self.newest: int | None = None
        self.hosts: dict[int, str] = {}
        self._limit = limit
        self._blocks: deque[Block] = deque()
        self._size = 0
        self._ends: dict[int, tuple[int, bytes]] = {}

    def add(self, rank: int, host: str, stream: int, data: bytes) -> None:
        """Add what a rank has written to its stream 1 or 2."""
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
        """Yield the blocks that are kept, the oldest first: (rank, stream, bytes)."""
        yield from self._blocks

    def last_line(self, rank: int | None) -> str:
        """Return the newest line of a rank that is not empty, "" if it has written none.

        Of a line that was overwritten, as by a progress bar, it is what is seen now. What is not
        UTF-8 is replaced; control characters are left as they are.
        """
        if rank is None or rank not in self._ends:
            return ""
        text = self._ends[rank][1].decode("utf-8", "replace")
        lines = (line.rstrip("\r").rpartition("\r")[2].strip() for line in text.split("\n"))
        return next(filter(None, reversed(list(lines))), "")
