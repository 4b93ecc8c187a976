"""Which nodes of a job are alive, and what each of them does."""

from __future__ import annotations


class NodeStates:
    """The nodes that are alive, each in one of three sets.

    Attributes:
        late: those that have not been ready for a round yet.
        ready: those that wait for one.
        running: those that are in one.
    """

    def __init__(self, nodes: int) -> None:
        """Begin with so many nodes, none of which is ready."""
        self.late = set(range(nodes))
        self.ready: set[int] = set()
        self.running: set[int] = set()

    def __len__(self) -> int:
        """Return how many are alive."""
        return len(self.late) + len(self.ready) + len(self.running)

    def __contains__(self, node: int) -> bool:
        """Return whether a node is alive."""
        return node in self.running or node in self.ready or node in self.late

    def came(self, node: int) -> None:
        """Add a node."""
        if node not in self:
            self.late.add(node)

    def joined(self, node: int) -> None:
        """Record that a node waits for a round."""
        self.late.discard(node)
        self.running.discard(node)
        self.ready.add(node)

    def begin(self, members: set[int]) -> None:
        """Record that nodes which were ready are in a round."""
        self.ready -= members
        self.running = set(members)

    def left(self, node: int) -> None:
        """Remove a node."""
        for nodes in (self.late, self.ready, self.running):
            nodes.discard(node)

    def clear(self) -> None:
        """Remove all."""
        for nodes in (self.late, self.ready, self.running):
            nodes.clear()
