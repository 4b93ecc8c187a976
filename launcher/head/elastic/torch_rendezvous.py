"""The restart policy of a job whose rounds torch's rendezvous forms, for the part on this machine.

torch's agent decides which ranks this node has, whether a failure leads to a restart, and when the
job is over. The runner reports that, and which worker has failed.
"""

from __future__ import annotations

import signal

from ...common.errors import LostError, NodeError
from ...control import frames, messages, round_messages
from ..run.decisions import BeginRound, RecordLoss, SetError, StopAll
from ..run.effects import LabelNode, Log
from ..run.restart_policy import NoRestarts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from ...control.round_messages import AgentFailure, Ranks
    from ...specs.rendezvous import Rendezvous
    from ..run.decisions import StartRun
    from ..run.restart_policy import Course
    from ..run.run_node import RunNode

NO_REASON = "torch's agent ended its workers"
"""Why the job is over if the agent gives no reason and no worker here has failed."""


class TorchRendezvous(NoRestarts):
    """Follows torch's agent on one node from round to round; the runner itself restarts nothing."""

    def __init__(self, course: Course, rendezvous: Rendezvous) -> None:
        """Follow the agent of a rendezvous."""
        super().__init__(course)
        self.handlers = {frames.RANKS: self._on_ranks, frames.AGENT_FAILED: self._on_agent_failure}
        self._rendezvous = rendezvous
        self._world_size = self._number = 0

    def on_start(self, _start: StartRun, _first: RunNode, _probes: Mapping[RunNode, int]) -> None:
        """Log what it waits for."""
        rdzv = self._rendezvous
        self._do(Log(f"{rdzv.words}, --rdzv_id {rdzv.run_id}: waiting for {rdzv.nodes}"))

    def world_size(self, planned: int) -> int:
        """Return the number of workers on all nodes, once torch has reported it."""
        return self._world_size or planned

    def _on_ranks(self, node: RunNode, body: bytes) -> None:
        """Give the node its ranks in another round."""
        ranks = messages.unpack(round_messages.Ranks, body)
        self._world_size = ranks.world_size
        self._number += 1
        node.assign(node.node._replace(rank=ranks.node_rank, first_rank=ranks.first_rank))
        self._do(BeginRound(self._number, ranks, (node,)))
        self._do(LabelNode(node.node))
        self._do(Log(_place(ranks, len(node.node.slots or ()))))

    def on_failure(self, node: RunNode, ended: messages.WorkerExit) -> None:
        """Record the end of a worker; torch's agent decides what follows from it."""
        self._record.exited(node, ended)

    def _on_agent_failure(self, node: RunNode, body: bytes) -> None:
        """Stop: the agent has failed."""
        failure = messages.unpack(round_messages.AgentFailure, body)
        text = f"{self._rendezvous.words}: {failure.reason}"
        if self._record.has_failures:
            if failure.reason:
                self._do(Log(text, "warning"))
        elif self._world_size:
            self._do(RecordLoss(node.name, failure.reason or NO_REASON))
        else:
            self._do(SetError(_refused(failure, text)))
        self._do(StopAll(signal.SIGTERM))


def _place(ranks: Ranks, count: int) -> str:
    """Return which ranks are on this node, and the master's address."""
    last = ranks.first_rank + count - 1
    here = f"ranks {ranks.first_rank}-{last}" if count > 1 else f"rank {last}"
    again = f"; restart {ranks.restarts}/{ranks.max_restarts}" if ranks.restarts else ""
    master = f"{ranks.master_addr}:{ranks.master_port}"
    node = f"node {ranks.node_rank} of {ranks.nodes}"
    return f"{here} of {ranks.world_size} here, {node}, master {master}{again}"


def _refused(failure: AgentFailure, text: str) -> NodeError | LostError:
    return NodeError(text) if failure.unusable else LostError(text)
