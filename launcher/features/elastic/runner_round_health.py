"""The checks of nodes by gates (`GateStage.NODE`) before they are in another round."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ...head.run.run_node import RunNode

FRESH = 60.0
"""Seconds for which a node that has passed need not be checked again for a round."""


class RoundHealth:
    """Checks nodes before each of their rounds, except for those that have just passed."""

    def __init__(
        self, *, needed: bool, clock: Callable[[], float], check: Callable[[RunNode], None]
    ) -> None:
        """Check nodes of a run.

        Args:
            needed: whether there is such a gate.
            clock: returns the time on the loop's clock.
            check: checks a node.
        """
        self._needed, self._clock, self._check = needed, clock, check

    def passed(self, nodes: Iterable[RunNode]) -> bool:
        """Return whether these nodes may be in a round."""
        return not self._needed or all(map(self._is_fresh, nodes))

    def check(self, nodes: Iterable[RunNode]) -> None:
        """Check the nodes that have not passed, unless their check is under way."""
        for node in nodes:
            if not node.busy and not self._is_fresh(node):
                self._check(node)

    def began(self, nodes: Iterable[RunNode]) -> None:
        """Check these nodes again for their next round."""
        for node in nodes:
            node.passed_at = None

    def _is_fresh(self, node: RunNode) -> bool:
        return node.passed_at is not None and self._clock() - node.passed_at < FRESH
