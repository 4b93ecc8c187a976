"""Nodes on which a job fails again and again, and no other does, are put aside for a while."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

FAILURES = 3
"""Failures that began on one node, and on no other, until it is put aside."""

WINDOW = 600.0
"""Seconds for which a failure counts."""


class ExcludedNodes:
    """Who is put aside, and until when."""

    def __init__(self, cool: float, clock: Callable[[], float]) -> None:
        """Put nodes aside for `cool` seconds; 0 for never."""
        self._cool = cool
        self._clock = clock
        self._until: dict[int, float] = {}
        self._failures: list[tuple[float, int]] = []

    def blame(self, node: int) -> set[int]:
        """Take in where a failure began; returns who is put aside no more.

        A failure elsewhere shows that it was not the node: it may be a bug that shows on one rank.
        """
        now = self._clock()
        self._failures = [one for one in self._failures if now - one[0] < WINDOW] + [(now, node)]
        cleared = self.aside() & {one for _, one in self._failures} - {node}
        for other in cleared:
            del self._until[other]
        return cleared

    def excuse(self) -> None:
        """Take the last failure back: something else has caused it."""
        _, node = self._failures.pop()
        self._until.pop(node, None)

    def is_bad(self, node: int) -> bool:
        """Tell whether failures begin on this node, again and again, and on no other."""
        nodes = [one for _, one in self._failures]
        return bool(self._cool) and len(nodes) >= FAILURES and set(nodes) == {node}

    def put_aside(self, node: int) -> None:
        """Leave a node out for a while."""
        self._until[node] = self._clock() + self._cool

    def aside(self) -> set[int]:
        """Return the nodes that are put aside now."""
        now = self._clock()
        return {node for node, until in self._until.items() if now < until}
