"""The state of a node's rounds: decides the reaction to each event.

Nothing here sends, starts or waits: `RoundsActions` does.
"""

from __future__ import annotations

import signal
from enum import Enum

from ...control import frames, round_messages
from . import node_agent_environment as agent_environment

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Protocol

    from ...common.records import NamedTuple
    from ...control.messages import Start
    from ...control.round_messages import AgentFailure

    class Agent(Protocol):
        """Decides for the workers of one node, from round to round."""

        @property
        def pids(self) -> Sequence[int]:
            """The pids of the agent's processes among this process's children."""

        def start(self) -> None:
            """Get ready for the first round."""

        def form(self, start: Start, /) -> None:
            """Take this node's place in a round of the runner's."""

        def change(self) -> None:
            """Leave the present round for the next one."""

        def ended(self, local: int, code: int) -> None:
            """Record that a worker of the present round has ended, by its local rank."""

        def workers_gone(self) -> None:
            """Record that nothing is left of the last workers."""

        def close(self) -> None:
            """Release everything; its listener gets no more calls."""

    class AgentListener(Protocol):
        """Receives the decisions of an agent."""

        def agent_joined(self, port: int, probe: int) -> None:
            """Handle an agent that waits for a round.

            Args:
                port: the port of the round's store if this node is the first one.
                probe: a port that listens until the round is formed, for other nodes to try.
            """

        def workers_requested(self, environments: Sequence[Mapping[str, str]]) -> None:
            """Handle the agent's request for the workers of a round.

            Args:
                environments: the variables that torch's agent sets for each worker, by local rank;
                    empty for all other agents.
            """

        def stop_requested(self, number: int) -> None:
            """Handle the agent's request to stop the workers with this signal."""

        def round_finished(self) -> None:
            """Handle the end of a round: all its workers have ended with code 0, and are gone."""

        def agent_ended(self, failure: AgentFailure | None) -> None:
            """Handle the end of the agent: a failure, unless its workers had ended well."""

    class RoundsOwner(Protocol):
        """Starts and stops the workers of rounds; implemented by `NodeRunState`."""

        def workers_requested(self, start: Start) -> None:
            """Start the workers of a round."""

        def round_stopped(self, number: int, grace: float) -> None:
            """Stop the workers of a round: SIGKILL `grace` seconds after the signal."""

        def signal_came(self, number: int) -> None:
            """Pass a signal on to the workers."""

        def rounds_ended(self, reason: str) -> None:
            """End the run, as no round follows: the reason, "" if all workers ended well."""

    class RoundsActions(Protocol):
        """Carries out the decisions of a node's rounds, in the order of the calls."""

        @property
        def agent(self) -> Agent:
            """The agent of this node."""

        def send(self, kind: int, message: NamedTuple) -> None:
            """Send the runner a message in a frame of this kind."""

        def start_workers(self, start: Start) -> None:
            """Ask the run to start the workers of this round."""

        def stop_workers(self, number: int, grace: float) -> None:
            """Ask the run to stop its workers: SIGKILL `grace` seconds after the signal."""

        def give_notice(self) -> None:
            """Tell the workers that there will be another round soon."""

        def close_notice(self) -> None:
            """Take the notice back; `RoundsState.workers_gone` follows."""

        def finish(self, reason: str) -> None:
            """Ask the run to end, for this reason, "" if all workers ended well."""


class RoundsPhase(Enum):
    """The state of this node within its rounds.

    Attributes:
        JOINING: on its way to a round.
        JOINED: waiting for a round of the runner's.
        FORMING: in a round, whose workers the agent has not requested yet.
        REQUESTED: workers wait for the end of the previous round's.
        RUNNING: the round's workers were started.
        OVER: there is no further round.
    """

    JOINING = 1
    JOINED = 2
    FORMING = 3
    REQUESTED = 4
    RUNNING = 5
    OVER = 6


class RoundsState:
    """The state of a node in its rounds."""

    def __init__(
        self, do: RoundsActions, workers: int, grace: float, template: Start | None
    ) -> None:
        """Begin on the way to the first round.

        Args:
            do: carries out decisions.
            workers: the number of workers of this node in each round.
            grace: seconds until SIGKILL for workers that are stopped.
            template: the common part of all rounds of torch's rendezvous; None for the runner's.
        """
        self.phase = RoundsPhase.JOINING
        self._do = do
        self._workers, self._grace, self._template = workers, grace, template
        self._number = 0
        self._start: Start | None = None
        self._workers_left = False

    @property
    def _over(self) -> bool:
        return self.phase is RoundsPhase.OVER

    def stop(self) -> None:
        """Start no further round."""
        self.phase = RoundsPhase.OVER

    # -- the runner -------------------------------------------------------------------------

    def round_formed(self, start: Start) -> None:
        """Take this node's place in a round that the runner has formed."""
        if self.phase is RoundsPhase.JOINED:
            self.phase, self._start = RoundsPhase.FORMING, start
            self._do.agent.form(start)

    def change_wanted(self) -> None:
        """Tell the agent to leave its round: the runner wants another round."""
        if not self._over:
            self._do.agent.change()

    def change_near(self) -> None:
        """Tell the workers that the runner will want another round soon."""
        if self._workers_left and not self._over:
            self._do.give_notice()

    # -- the agent --------------------------------------------------------------------------

    def agent_joined(self, port: int, probe: int) -> None:
        """Tell the runner that this node waits for a round."""
        if not self._over:
            self.phase = RoundsPhase.JOINED
            self._do.send(frames.READY, round_messages.Join(port, probe))

    def workers_requested(self, environments: Sequence[Mapping[str, str]]) -> None:
        """Start the workers of the round, once the previous round's workers are gone."""
        if self._over:
            return
        if self._template is not None:
            self._number += 1
            self._start = agent_environment.round_of(self._template, environments, self._number)
        elif self.phase is RoundsPhase.FORMING and self._start is not None:
            self._start = agent_environment.of_agent(self._start, environments)
        else:
            return
        self.phase = RoundsPhase.REQUESTED
        self._start_workers()

    def _start_workers(self) -> None:
        """Start requested workers, if the previous round's workers are gone."""
        if self.phase is not RoundsPhase.REQUESTED or self._workers_left or self._start is None:
            return
        self.phase, self._workers_left = RoundsPhase.RUNNING, True
        if self._template is not None:
            self._do.send(frames.RANKS, agent_environment.ranks(self._start))
        self._do.start_workers(self._start)

    def stop_requested(self, number: int) -> None:
        """Stop the workers of the round, which the agent leaves."""
        if self._workers_left and not self._over:
            grace = 0.0 if number == signal.SIGKILL else self._grace
            self._do.stop_workers(number, grace)
        if self.phase is RoundsPhase.REQUESTED:
            # The agent leaves the round before its workers were started: they end at once.
            self.phase = RoundsPhase.JOINING
            self._report_all_ended(number)

    def round_finished(self) -> None:
        """Report a finished round to the runner, which ends the job after all nodes' reports."""
        running = self.phase is RoundsPhase.RUNNING
        if running and self._start is not None and self._template is None:
            self._do.send(frames.FINISHED, round_messages.Finished(self._start.generation))

    def agent_ended(self, failure: AgentFailure | None) -> None:
        """End the rounds, and tell the runner of a failure."""
        if self._over:
            return
        self.stop()
        if failure is not None:
            self._do.send(frames.AGENT_FAILED, failure)
        self._do.finish(failure.reason if failure else "")

    # -- the workers ------------------------------------------------------------------------

    def worker_exited(self, rank: int, code: int) -> None:
        """Tell the agent, unless it is of an earlier round."""
        if self.phase is RoundsPhase.RUNNING and self._start is not None:
            self._do.agent.ended(rank - self._start.first_rank, code)

    def not_started(self, number: int) -> None:
        """Tell the agent that no worker of this round was started: this signal stopped it."""
        if not self._over:
            self._report_all_ended(number)
            self._do.close_notice()

    def _report_all_ended(self, number: int) -> None:
        """Report to the agent that a signal has ended all workers of the round."""
        for local in range(self._workers):
            self._do.agent.ended(local, -number)

    def workers_gone(self) -> None:
        """Continue without a notice, which the next workers would see."""
        if not self._over:
            self._workers_left = False
            self._do.agent.workers_gone()
            self._start_workers()
