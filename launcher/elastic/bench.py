"""Nodes on which a job fails again and again are put aside for a while."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

FAILURES = 3
"""Failures in a row that began on the same node until it is put aside."""


class Bench:
    """Who is put aside, and until when."""

    def __init__(self, cool: float, clock: Callable[[], float]) -> None:
        """Put nodes aside for `cool` seconds; 0 for never."""
        self._cool = cool
        self._clock = clock
        self._until: dict[int, float] = {}
        self._last = -1
        self._row = 0

    def blame(self, node: int) -> bool:
        """Take in where a failure began, and tell whether that was once too often."""
        self._row = self._row + 1 if node == self._last else 1
        self._last = node
        if not self._cool or self._row < FAILURES:
            return False
        self._row = 0
        self._until[node] = self._clock() + self._cool
        return True

    def aside(self) -> set[int]:
        """Return the nodes that are put aside now."""
        now = self._clock()
        return {node for node, until in self._until.items() if now < until}
