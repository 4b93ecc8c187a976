"""Nodes on which a job fails repeatedly, and on no other: they are excluded for a while."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

FAILURES = 3
"""Failures that begin on one node, and on no other, until it is excluded."""

WINDOW = 600.0
"""Seconds for which a failure counts."""


class ExcludedNodes:
    """The nodes that are excluded, and until when."""

    def __init__(self, cool: float, clock: Callable[[], float]) -> None:
        """Exclude nodes for `cool` seconds; 0 for never."""
        self._cool = cool
        self._clock = clock
        self._until: dict[int, float] = {}
        self._failures: list[tuple[float, int]] = []

    def record(self, node: int) -> set[int]:
        """Record where a failure began; return the nodes that are no longer excluded.

        A failure elsewhere shows that the node is not to blame: a bug may show on one rank only.
        """
        now = self._clock()
        self._failures = [one for one in self._failures if now - one[0] < WINDOW] + [(now, node)]
        cleared = self.excluded() & {one for _, one in self._failures} - {node}
        for other in cleared:
            del self._until[other]
        return cleared

    def undo(self) -> None:
        """Forget the last failure: something else has caused it."""
        _, node = self._failures.pop()
        self._until.pop(node, None)

    def is_bad(self, node: int) -> bool:
        """Return whether failures begin on this node repeatedly, and on no other."""
        nodes = [one for _, one in self._failures]
        return bool(self._cool) and len(nodes) >= FAILURES and set(nodes) == {node}

    def exclude(self, node: int) -> None:
        """Exclude a node for a while."""
        self._until[node] = self._clock() + self._cool

    def excluded(self) -> set[int]:
        """Return the nodes that are excluded now."""
        now = self._clock()
        return {node for node, until in self._until.items() if now < until}
