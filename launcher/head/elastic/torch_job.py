"""This machine's part of a job whose nodes torch's rendezvous brings together.

torch's agent decides here: which ranks this node has, what a worker's failure means, and when it is
over. The runner shows it, and knows which worker failed.
"""

from __future__ import annotations

import signal

from ...common.errors import LostError, NodeError
from ...control import frames, messages
from ..run.job import Job

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from ...control.messages import Left, Ranks
    from ...specs.plan import Plan
    from ...specs.rendezvous import Rendezvous
    from ..fleet.node_connection import Peer
    from ..report.report import Report

NO_WORD = "torch's agent ended its workers"
"""Why the job is over, where the agent says no more and no worker here has failed."""


class TorchJob(Job):
    """A job of one node, from round to round."""

    def __init__(self, rendezvous: Rendezvous, *args: Any) -> None:
        """Prepare it; what follows the rendezvous is a Job's."""
        super().__init__(*args)
        self._rendezvous = rendezvous
        self._world_size = 0
        self._workers.place = " here"

    def _handlers(self, peer: Peer) -> dict[int, Callable[[bytes], None]]:
        return {
            **super()._handlers(peer),
            frames.RANKS: lambda body: self._on_ranks(peer, body),
            frames.LEFT: lambda body: self._on_left(peer, body),
        }

    def _start(self, plan: Plan, master: str, port: int) -> None:
        super()._start(plan, master, port)
        met = self._rendezvous
        self._console.say(f"{met.words}, --rdzv_id {met.run_id}: waiting for {met.nodes}")

    def _on_ranks(self, peer: Peer, body: bytes) -> None:
        """Take in which ranks this node has from now on; those of former rounds are forgotten."""
        self._must_run()
        ranks = messages.unpack(messages.Ranks, body)
        self._account.forget_exits()
        self._workers.begin_again()
        self._world_size = ranks.world_size
        node = peer.node._replace(rank=ranks.node_rank, first_rank=ranks.first_rank)
        peer.seat(node)
        self._label_workers(peer.node)
        self._console.say(_place(ranks, len(peer.node.slots or ())))

    def _exited(self, peer: Peer, ended: messages.Exit) -> None:
        """Note the end of a worker; torch's agent says what follows from it."""
        self._account.exited(peer, ended)

    def _on_left(self, peer: Peer, body: bytes) -> None:
        """Take in that the agent has ended, and not well."""
        self._must_run()
        left = messages.unpack(messages.Left, body)
        said = f"{self._rendezvous.words}: {left.why}"
        if self._account.has_failures:
            if left.why:
                self._console.say(said, "warning")
        elif self._world_size:
            self._account.lost(peer.name, left.why or NO_WORD, self._loop.clock())
        else:
            self._error = _refused(left, said)
        self._stop(signal.SIGTERM, self._rules.grace)

    def _report(self) -> Report:
        report = super()._report()
        return report._replace(world_size=self._world_size) if self._world_size else report


def _place(ranks: Ranks, count: int) -> str:
    """Say which ranks are here, and where all of them meet."""
    last = ranks.first_rank + count - 1
    here = f"ranks {ranks.first_rank}-{last}" if count > 1 else f"rank {last}"
    again = f"; restart {ranks.restarts}/{ranks.max_restarts}" if ranks.restarts else ""
    master = f"{ranks.master_addr}:{ranks.master_port}"
    node = f"node {ranks.node_rank} of {ranks.nodes}"
    return f"{here} of {ranks.world_size} here, {node}, master {master}{again}"


def _refused(left: Left, said: str) -> NodeError | LostError:
    return NodeError(said) if left.unusable else LostError(said)
