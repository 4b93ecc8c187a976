"""START in two steps: the first node first, which has the port that the workers will meet at."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from .run_node import RunNode


class StagedStart:
    """Starts the other nodes once the first has let go of the master port.

    Its node launcher listens there until it starts; then the store of rank 0 does. A worker of
    another node must not meet the former.

    Attributes:
        first: the node of rank 0.
    """

    def __init__(self, first: RunNode) -> None:
        self.first = first
        self._held: list[tuple[RunNode, bytes]] = []

    def send(self, starts: Sequence[tuple[RunNode, bytes]]) -> None:
        """Send the first START; the others follow."""
        (self.first, frame), *self._held = starts
        self.first.send(frame)

    def on_answer(self, node: RunNode) -> None:
        """Start the others if this is the first node's word after its START."""
        if node is self.first:
            held, self._held = self._held, []
            for other, frame in held:
                other.send(frame)

    def cancel(self) -> None:
        """Start nobody any more."""
        self._held = []
