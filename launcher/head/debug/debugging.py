"""`--debug`: lets editors on this machine reach the debuggers of ranks on their nodes.

Each rank has a port on loopback here. The bytes of an editor go over the control line to a program
on the node (`node.debug.program`), so no port is opened there.
"""

from __future__ import annotations

from ...common.errors import reason
from ..run.events import Exit, JobEnded, Lost, RanksStarted
from .configurations import Configurations, folders
from .rank import DebuggedRank

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..output.console import Console
    from ..run.events import RunEvent
    from ..run.run import Run
    from ..run.run_node import RunNode


class Debugging:
    """The debugged ranks of a run."""

    def __init__(self, run: Run, _console: Console) -> None:
        """Observe a run, whose job says which ranks are debugged."""
        assert run.spec.debug is not None
        self._run = run
        self._policy = run.spec.debug
        self._ranks: dict[int, DebuggedRank] = {}
        self._configurations = Configurations(self._policy.file, run.log)
        run.observe(self.on_event)

    def on_event(self, event: RunEvent) -> None:
        """Handle an event of the run."""
        match event:
            case RanksStarted(host, ranks):
                for rank in filter(self._policy.has, ranks):
                    self._start(rank, host)
            case Exit(rank):
                if rank in self._ranks:
                    self._ranks[rank].ended()
            case Lost():
                for rank, one in self._ranks.items():
                    if self._node_of(rank) is None:
                        one.ended()
            case JobEnded():
                self._close()

    def _start(self, rank: int, host: str) -> None:
        node = self._node_of(rank)
        if node is None or node.task is None or node.name != host:
            return  # the host has named a rank that is not its own
        if rank not in self._ranks:
            try:
                self._ranks[rank] = DebuggedRank(self._run, rank)
            except OSError as error:
                self._run.warn(f"rank {rank} cannot be debugged: {reason(error)}")
                return
        one, wait = self._ranks[rank], self._policy.wait
        places = folders(self._run.spec, node.task)
        where = self._configurations.add(rank, node.name, one.port, places)
        does = "waits for a debugger" if wait else "can be debugged"
        self._run.log(f"rank {rank} on {node.name} {does} at 127.0.0.1:{one.port}; {where}")
        one.started(node, wait=wait)

    def _node_of(self, rank: int) -> RunNode | None:
        """Return the node on which a rank runs now."""
        run = self._run
        return next((node for node in run.nodes if run.workers.runs(node, rank)), None)

    def _close(self) -> None:
        for one in self._ranks.values():
            one.close()
        self._configurations.close()
