"""BINDINGS: reports which cores and memory the workers have, according to the kernel."""

from __future__ import annotations

from ...control import frames, messages
from ...node.service import NodeService
from .node_observed_affinity import AffinityWatch, placed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...control.messages import Start
    from ...node.service import ServiceContext
    from ...node.workers.group import WorkerGroup


class AffinityReport(NodeService):
    """Reports the bindings of workers once, at its end at the latest."""

    def __init__(self, context: ServiceContext) -> None:
        super().__init__(context)
        self._watch: AffinityWatch | None = None

    def started(self, start: Start, group: WorkerGroup, /) -> None:
        bound = self.context.specs.bound(start, group.processes)

        def report(values: Sequence[tuple[str, str]]) -> None:
            found = bound._replace(workers=placed(bound.workers, values))
            self.context.send(messages.pack(frames.BINDINGS, found))

        self._watch = AffinityWatch(self.context.loop, group.processes, report)

    def close(self) -> None:
        """Report now, if not yet done."""
        if self._watch is not None:
            self._watch.finish()
