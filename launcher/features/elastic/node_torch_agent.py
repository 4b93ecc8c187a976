"""torch's elastic agent as the agent of this node, replaced when it cannot act on a change."""

from __future__ import annotations

from functools import partial

from ...control.round_messages import AgentFailure
from ...node.workers.spawn import SpawnFailed
from .node_agent_process import AgentProcess

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ...common.loop import Loop
    from ...control.messages import Start
    from ...node.workers.spawn import WorkerSpec
    from .node_rounds_state import AgentListener

STUCK = 2.0
"""Seconds for torch's agents to agree on ranks once their round is over."""


class TorchAgent:
    """torch's agent on this node; there may be another process for each round."""

    def __init__(
        self,
        loop: Loop,
        command: Callable[[int], WorkerSpec],
        listener: AgentListener,
        workers: int,
    ) -> None:
        """Prepare an agent for this number of workers.

        Args:
            loop: reads the agent's lines.
            command: returns the command to execute, given the descriptor of its standard input.
            listener: receives the agent's decisions.
            workers: the number of workers that the agent requests in each round.
        """
        self._loop = loop
        self._command = command
        self._listener = listener
        self._workers = workers
        self._process: AgentProcess | None = None
        self._forming: Start | None = None
        self._held: list[tuple[int, int]] | None = None
        self._ended_well = 0
        self._stopped = False

    @property
    def pids(self) -> list[int]:
        """The agent's process."""
        return [] if self._process is None else [self._process.pid]

    def start(self) -> None:
        """Start the process."""
        self._start_round(None)
        try:
            self._process = AgentProcess(self._loop, self._command, self, self._workers)
        except (SpawnFailed, OSError) as error:
            self.agent_ended(AgentFailure(f"torch's agent could not be started: {error}"))

    def form(self, start: Start) -> None:
        """Tell the agent its place in a round."""
        self._start_round(start)
        if self._process is not None:
            self._process.form(
                {
                    "rank": start.node_rank,
                    "nodes": start.nodes,
                    "host": start.master_addr,
                    "port": start.master_port,
                }
            )

    def change(self) -> None:
        """Tell the agent to leave its round for the next one.

        From now on the ends of workers are held back until the agent stops them: a worker may end
        with code 0 because of the change, with its work unfinished.
        """
        if self._finished():
            # It waits for the other agents, and reads no message.
            self._replace()
            return
        if self._held is None:
            self._held = []
        if self._process is not None:
            self._process.change()
        if self._forming is not None:
            self._loop.call_later(STUCK, partial(self._replace_stuck, self._forming))

    def ended(self, local: int, code: int) -> None:
        """Report the end of a worker to the agent."""
        if self._held is not None:
            self._held.append((local, code))
        elif self._process is not None:
            self._ended_well += code == 0
            self._process.ended(local, code)

    def workers_gone(self) -> None:
        """Report a round whose workers here have all ended with code 0."""
        if self._finished():
            self.round_finished()

    def close(self) -> None:
        """End the process."""
        self._start_round(None)
        if self._process is not None:
            self._process.close()

    def _start_round(self, start: Start | None) -> None:
        self._forming = start
        self._held, self._ended_well, self._stopped = None, 0, False

    def _finished(self) -> bool:
        """Return whether all workers of the round have ended with code 0, without a request."""
        return self._ended_well == self._workers and not self._stopped and self._held is None

    def _replace_stuck(self, start: Start) -> None:
        """Replace an agent that waits for the ranks of nodes that are gone."""
        if self._forming is start:
            self._replace()

    def _replace(self) -> None:
        self.close()
        self.start()

    # -- decisions of the process (`AgentListener`) -------------------------------------------

    def agent_joined(self, port: int, probe: int) -> None:
        """Handle an agent that waits for a round."""
        self._forming = None
        self._listener.agent_joined(port, probe)

    def workers_requested(self, environments: Sequence[Mapping[str, str]]) -> None:
        """Handle the agent's request for the workers of a round."""
        self._forming = None
        self._listener.workers_requested(environments)

    def stop_requested(self, number: int) -> None:
        """Handle the agent's request to stop the workers; report those that ended before."""
        self._stopped = True
        self._listener.stop_requested(number)
        held, self._held = self._held or [], None
        for local, code in held:
            self.ended(local, code)

    def round_finished(self) -> None:
        """Handle the end of a round: all its workers have ended with code 0, and are gone."""
        self._listener.round_finished()

    def agent_ended(self, failure: AgentFailure | None) -> None:
        """Handle the end of the agent."""
        self._listener.agent_ended(failure)
