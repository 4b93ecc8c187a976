"""The health command on the nodes of the next round, before it is formed."""

from __future__ import annotations

from functools import partial

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from ..run.health import Health
    from ..run.run_node import RunNode


class RoundHealth:
    """Checks nodes that are to be in a round, and gives up those that fail.

    A node is checked for each of its rounds; one that has just passed, as it came, is not checked
    again.
    """

    def __init__(
        self,
        health: Health | None,
        give_up: Callable[[RunNode, str], None],
        passed: Callable[[], object],
    ) -> None:
        """Check nodes of a run.

        Args:
            health: has the command; None if there is none.
            give_up: gives up a node, for a reason; it may be reached again.
            passed: called whenever a node has passed.
        """
        self._health = health
        self._give_up = give_up
        self._tell = passed

    def passed(self, nodes: Iterable[RunNode]) -> bool:
        """Return whether these nodes may be in a round."""
        return self._health is None or all(map(self._health.is_fresh, nodes))

    def check(self, nodes: Iterable[RunNode]) -> None:
        """Check those of these nodes that have not passed, unless that is under way."""
        health = self._health
        assert health is not None
        for node in nodes:
            if not node.busy and not health.is_fresh(node):
                health.check(node, partial(self._on_checked, node))

    def began(self, nodes: Sequence[RunNode]) -> None:
        """Have these nodes checked again for their next round."""
        if self._health is not None:
            for node in nodes:
                self._health.forget(node)

    def _on_checked(self, node: RunNode, why: str) -> None:
        if why:
            self._give_up(node, why)
        else:
            self._tell()
