"""The output of a run's workers, on its way from the nodes to the console."""

from __future__ import annotations

from bisect import bisect_right

from ...control import frames

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ...specs.plan import Node, Plan
    from ..output.filter import OutputFilter
    from ..output.screen import Screen
    from .events import Observers
    from .run_node import RunNode


WIDEST = 40
"""Greatest width, in columns, to which the labels of folded lines are aligned."""


class RunOutput:
    """Labels each rank's lines, and grants nodes more credit as their output is printed.

    Attributes:
        observers: receive all output before it is printed, if not None.
    """

    def __init__(self, console: Screen, shown: OutputFilter, window: int) -> None:
        """Grant each node at most `window` bytes at a time."""
        self.observers: Observers | None = None
        self._console = console
        self._filter = shown
        self._window = window
        self._nodes: Sequence[Node] = ()
        self._labelled: set[int] = set()
        self._width = 0

    def label(self, plan: Plan) -> None:
        """Label the ranks of a plan from now on."""
        self._label_nodes(plan.nodes)

    def label_node(self, node: Node) -> None:
        """Label the ranks of one node, and keep the labels of all other ranks."""
        self._label_nodes((node,))

    def _label_nodes(self, nodes: Sequence[Node]) -> None:
        shown = self._filter
        if self._console.folds and shown.can_fold:
            workers = shown.workers(nodes)
            self._console.fold(len(workers), self._joint_label)  # waiting lines keep their labels
            self._width = min(WIDEST, len(shown.joint_label(workers)))
        self._nodes = nodes
        self._labelled.clear()

    def held_up(self, nodes: Iterable[RunNode]) -> bool:
        """Return whether unprinted output has nearly used up the credit of some node."""
        return any(node.limits.unprinted > self._window * 3 // 4 for node in nodes)

    def _joint_label(self, ranks: Sequence[int]) -> str:
        """Return the label of a line that several ranks wrote, padded to the common width."""
        places = ((self._node(rank), rank) for rank in ranks)
        label = self._filter.joint_label([(node, rank) for node, rank in places if node])
        return label.rjust(self._width)

    def _node(self, rank: int) -> Node | None:
        """Return the node of a rank; None if the rank is not in this round."""
        at = bisect_right(self._nodes, rank, key=lambda node: node.first_rank or 0)
        node = self._nodes[at - 1] if at else None
        return node if node is not None and rank in node.ranks else None

    def _label(self, rank: int) -> None:
        """Label a rank when it first prints: of many thousands of ranks, only a few may."""
        self._labelled.add(rank)
        node = self._node(rank)
        if node is not None:
            local = node.local_rank(rank)
            streams = self._filter.shown(rank, local)
            self._console.label(rank, self._filter.label(node, rank, local), streams)

    def on_output(self, node: RunNode, body: bytes) -> None:
        """Print output of a worker, unless its rank now belongs to another node.

        Workers of a lost node may still write until that node ends them.

        Raises:
            BadFrame: the rank is not on this node, or the output exceeds the node's credit.
        """
        rank, stream, data = frames.unpack_output(body)
        size = len(data)
        node.limits.check_rank(rank)
        node.limits.on_output(size, self._window)
        place = self._node(rank)
        if place is None or place.host.name != node.name:
            node.limits.on_printed(size, self._window)
            return
        if self.observers:
            self.observers.output(rank, node, stream, data)
        if rank not in self._labelled:
            self._label(rank)
        self._console.feed(rank, stream, data, lambda: node.limits.on_printed(size, self._window))
