"""START in two steps: the first node, which has the master port, before all others."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from .run_node import RunNode


class StagedStart:
    """Starts the other nodes once the first has released the master port.

    The first node's launcher listens there until START; then the store of rank 0 does. A worker of
    another node must not connect to the former.

    Attributes:
        first: the node of rank 0.
    """

    def __init__(self, first: RunNode) -> None:
        self.first = first
        self._held: list[tuple[RunNode, bytes]] = []
        self._send: Callable[[RunNode, bytes], None]

    def send(
        self, starts: Sequence[tuple[RunNode, bytes]], send: Callable[[RunNode, bytes], None]
    ) -> None:
        """Send START to the first node, with `send`, and keep the others back."""
        self._send, ((self.first, frame), *self._held) = send, starts
        self._send(self.first, frame)

    def on_answer(self, node: RunNode) -> None:
        """Start the others if this is the first node's answer to its START, or its loss.

        A job that goes on without it chooses another first node.
        """
        if node is self.first:
            held, self._held = self._held, []
            for other, frame in held:
                self._send(other, frame)

    def cancel(self) -> None:
        """Drop the frames that were kept back."""
        self._held = []
