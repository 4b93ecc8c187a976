"""The health command on the nodes of the next round, before it is formed."""

from __future__ import annotations

from functools import partial

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ..run.run import Run
    from ..run.run_node import RunNode


class RoundHealth:
    """Checks nodes that are to be in a round, and gives up those that fail.

    A node is checked for each of its rounds; one that has just passed, as it came, is not checked
    again.
    """

    def __init__(
        self, run: Run, give_up: Callable[[RunNode, str], None], look: Callable[[], None]
    ) -> None:
        """Check nodes of a run.

        Args:
            run: whose `health` has the command, if there is one.
            give_up: gives up a node, for a reason; it may be reached again.
            look: forms the next round if it is time for it; called whenever a node has passed.
        """
        self._run = run
        self._give_up = give_up
        self._look = look

    def passed(self, numbers: Sequence[int]) -> bool:
        """Return whether these nodes may be in a round; if not yet, have them checked."""
        health = self._run.health
        if health is None:
            return True
        nodes = [self._run.nodes[number] for number in numbers]
        due = [node for node in nodes if not health.is_fresh(node)]
        for node in due:
            if not node.busy:
                health.check(node, partial(self._on_checked, node))
        return not due

    def began(self, nodes: Sequence[RunNode]) -> None:
        """Have these nodes checked again for their next round."""
        if self._run.health is not None:
            for node in nodes:
                self._run.health.forget(node)

    def _on_checked(self, node: RunNode, why: str) -> None:
        if why:
            self._give_up(node, why)
        else:
            self._look()
