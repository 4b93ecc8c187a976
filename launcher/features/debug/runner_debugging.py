"""`--debug`: lets editors on this machine reach the debuggers of ranks on their nodes.

Each rank has a port on loopback here. The bytes of an editor go over the control line to a program
on the node (`features.debug.node_program`), so no port is opened there.
"""

from __future__ import annotations

from ...common.errors import NODE_UNUSABLE, reason
from ...head.run.events import Exit, JobEnded, Lost, RanksStarted
from ...head.run.restart_policy import GiveUp, stop_for
from .runner_configurations import Configurations, folders
from .runner_rank import DebuggedRank

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...common.unexpected import Log
    from ...head.fleet.fleet import NodeFleet
    from ...head.run.events import RunEvent
    from ...head.run.run import Handle
    from ...head.run.run_node import RunNode
    from ...head.run.running_ranks import Workers
    from ...specs.job import JobSpec


class Debugging:
    """The debugged ranks of a run."""

    def __init__(
        self,
        spec: JobSpec,
        fleet: NodeFleet,
        nodes: Sequence[RunNode],
        workers: Workers,
        log: Log,
        debugging: set[int],
        handle: Handle,
    ) -> None:
        """Begin for a job, which says which ranks are debugged.

        Args:
            spec: the job.
            fleet: its fleet.
            nodes: all nodes of its run.
            workers: those that run.
            log: prints a message, given its text and level.
            debugging: gets the ranks that a debugger is attached to, or that wait for one.
            handle: tells the run if a rank would wait for a debugger that cannot come.
        """
        assert spec.debug is not None
        self._spec, self._policy = spec, spec.debug
        self._fleet, self._nodes, self._workers = fleet, nodes, workers
        self._log, self._debugging, self._handle = log, debugging, handle
        self._given_up = False
        self._ranks: dict[int, DebuggedRank] = {}
        self._configurations = Configurations(self._policy.file, log)

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
        if self._given_up:
            return
        if rank not in self._ranks:
            try:
                self._ranks[rank] = DebuggedRank(rank, self._fleet, self._log, self._debugging)
            except OSError as error:
                self._without_port(f"rank {rank} cannot be debugged: no port here: {reason(error)}")
                return
        one, wait = self._ranks[rank], self._policy.wait
        places = folders(self._spec, node.task)
        where = self._configurations.add(rank, node.name, one.port, places)
        does = "waits for a debugger" if wait else "can be debugged"
        at = f"127.0.0.1:{one.port}"
        self._log(f"rank {rank} on {node.name} {does} at {at}; {where}", "info")
        one.started(node, wait=wait)

    def _without_port(self, why: str) -> None:
        """Warn that a rank has no port; end the run if it waits, as nobody could let it go on."""
        if self._policy.wait:
            self._given_up = True
            self._handle(stop_for, GiveUp(why, NODE_UNUSABLE, "stopped the job", ""))
        else:
            self._log(why, "warning")

    def _node_of(self, rank: int) -> RunNode | None:
        return next((node for node in self._nodes if self._workers.runs(node, rank)), None)

    def _close(self) -> None:
        for one in self._ranks.values():
            one.close()
        self._configurations.close()
