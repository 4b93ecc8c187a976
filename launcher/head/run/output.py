"""The output of a run's workers, on its way from the nodes to the console."""

from __future__ import annotations

from ...control import frames

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...specs.plan import Node, Plan
    from ..output.console import Console
    from ..output.filter import OutputFilter
    from .run_node import RunNode


class RunOutput:
    """Labels the lines of every rank, and grants its node more credit as they are printed."""

    def __init__(self, console: Console, shown: OutputFilter, window: int) -> None:
        """Grant each node at most `window` bytes at a time."""
        self._console = console
        self._filter = shown
        self._window = window

    def label(self, plan: Plan) -> None:
        """Label the ranks of a plan from now on."""
        for node in plan.nodes:
            self.label_node(node)

    def label_node(self, node: Node) -> None:
        """Label the ranks of a node from now on."""
        for worker in node.workers():
            text = self._filter.label(node, worker.rank, worker.local_rank)
            streams = self._filter.shown(worker.rank, worker.local_rank)
            self._console.label(worker.rank, text, streams)

    def on_output(self, node: RunNode, body: bytes) -> None:
        """Print what a worker has written.

        Raises:
            BadFrame: the rank is not the node's, or the output exceeds the node's credit.
        """
        rank, stream, data = frames.unpack_output(body)
        size = len(data)
        node.check_rank(rank)
        node.on_output(size, self._window)
        self._console.feed(rank, stream, data, lambda: node.on_printed(size, self._window))
