"""The restart policy of a job whose rounds torch's rendezvous forms, for the part on this machine.

torch's agent decides which ranks this node has, whether a failure leads to a restart, and when the
job is over. The runner reports that, and which worker has failed.
"""

from __future__ import annotations

import signal

from ...common.errors import LostError, NodeError
from ...control import frames, messages, round_messages
from ...head.run.restart_policy import NoRestarts, report_error
from .runner_round_changes import start_round

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from ...control.round_messages import AgentFailure, Ranks
    from ...head.run.run_node import RunNode
    from ...head.run.run_state import RunState
    from ...head.run.startup import AllReady
    from ...specs.rendezvous import Rendezvous

NO_REASON = "torch's agent ended its workers"
"""The reason for the end if the agent gives none, and no worker here has failed."""


class TorchRendezvous(NoRestarts):
    """Follows torch's agent on one node from round to round; the runner itself restarts nothing."""

    def __init__(self, run: RunState, rendezvous: Rendezvous) -> None:
        super().__init__(run)
        self.handlers = {frames.RANKS: self._on_ranks, frames.AGENT_FAILED: self._on_agent_failure}
        self._rendezvous = rendezvous
        self._world_size = self._number = 0

    def on_start(self, _start: AllReady, _first: RunNode, _probes: Mapping[RunNode, int]) -> None:
        """Log the nodes that the rendezvous waits for."""
        rdzv = self._rendezvous
        self._run.log(f"{rdzv.words}, --rdzv_id {rdzv.run_id}: waiting for {rdzv.nodes}")

    def world_size(self, planned: int) -> int:
        """Return the number of workers on all nodes, once torch has reported it."""
        return self._world_size or planned

    def _on_ranks(self, node: RunNode, body: bytes) -> None:
        """Give the node its ranks in another round."""
        ranks = messages.unpack(round_messages.Ranks, body)
        self._world_size = ranks.world_size
        self._number += 1
        node.assign(node.node._replace(rank=ranks.node_rank, first_rank=ranks.first_rank))
        self._decide(start_round, self._run, self._number, ranks, (node,))
        self._do(self._run.act.label_node, node.node)
        self._run.log(_place(ranks, len(node.node.slots or ())))

    def on_failure(self, node: RunNode, ended: messages.WorkerExit) -> None:
        """Record the end of a worker; torch's agent decides on the reaction."""
        self._record.exited(node, ended)

    def _on_agent_failure(self, node: RunNode, body: bytes) -> None:
        failure = messages.unpack(round_messages.AgentFailure, body)
        text = f"{self._rendezvous.words}: {failure.reason}"
        if self._record.has_failures:
            if failure.reason:
                self._run.warn(text)
        elif self._world_size:
            why = failure.reason or NO_REASON
            self._decide(self._record.lost, node.name, why, self._run.clock())
        else:
            self._decide(report_error, self._run, _refused(failure, text))
        self._decide(self._run.stop, signal.SIGTERM)


def policy(run: RunState) -> TorchRendezvous:
    """Return the restart policy of a run whose rounds torch's rendezvous forms."""
    assert run.spec.plan.rendezvous is not None
    return TorchRendezvous(run, run.spec.plan.rendezvous)


def _place(ranks: Ranks, count: int) -> str:
    """Return the ranks on this node, and the master's address, in words."""
    last = ranks.first_rank + count - 1
    here = f"ranks {ranks.first_rank}-{last}" if count > 1 else f"rank {last}"
    again = f"; restart {ranks.restarts}/{ranks.max_restarts}" if ranks.restarts else ""
    master = f"{ranks.master_addr}:{ranks.master_port}"
    node = f"node {ranks.node_rank} of {ranks.nodes}"
    return f"{here} of {ranks.world_size} here, {node}, master {master}{again}"


def _refused(failure: AgentFailure, text: str) -> NodeError | LostError:
    return NodeError(text) if failure.unusable else LostError(text)
