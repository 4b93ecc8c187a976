"""The state of a node's rounds: an event in, what is to be done of it out.

Nothing here sends, starts or waits: `NodeRounds` does.
"""

from __future__ import annotations

import signal
from enum import Enum

from ...control import frames, messages, round_messages
from ..workers import agent_environment
from . import effects, events

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from ...control.messages import Start


class Phase(Enum):
    """Where this node is in its rounds.

    Attributes:
        JOINING: on its way to a round.
        JOINED: waiting for one of the runner's.
        FORMING: in a round, whose workers the agent has not requested yet.
        REQUESTED: the workers wait for the end of those of the round before.
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
    """Where a node is in its rounds, and in which one.

    Attributes:
        phase: where it is.
    """

    def __init__(self, workers: int, grace: float, template: Start | None) -> None:
        """Begin on the way to the first round.

        Args:
            workers: how many this node has in each round.
            grace: seconds until SIGKILL for workers that are stopped.
            template: what all rounds of torch's rendezvous have in common; None for the runner's.
        """
        self.phase = Phase.JOINING
        self._workers, self._grace, self._template = workers, grace, template
        self._number = 0
        self._start: Start | None = None
        self._workers_left = False
        self._done: list[Any] = []
        self._handlers: dict[type, Callable[[Any], None]] = {
            events.AgentJoined: self._on_joined,
            events.WorkersRequested: self._on_requested,
            events.StopRequested: self._on_stop_requested,
            events.RoundFinished: self._on_finished,
            events.AgentEnded: self._on_agent_ended,
            events.RoundFormed: self._on_formed,
            events.ChangeWanted: lambda _it: self._done.append(effects.ChangeRound()),
            events.ChangeNear: self._on_change_near,
            events.WorkerExited: self._on_exited,
            events.NotStarted: self._on_not_started,
            events.WorkersGone: self._on_workers_gone,
        }

    def step(self, event: object) -> list[Any]:
        """Handle an event; return what is to be done, in this order."""
        if self.phase is not Phase.OVER:
            self._handlers[type(event)](event)
        done, self._done = self._done, []
        return done

    def stop(self) -> None:
        """Start no further round."""
        self.phase = Phase.OVER

    def _send(self, kind: int, message: Any) -> None:
        self._done.append(effects.Send(messages.pack(kind, message)))

    # -- the runner -------------------------------------------------------------------------

    def _on_formed(self, formed: events.RoundFormed) -> None:
        """Take this node's place in a round."""
        if self.phase is Phase.JOINED:
            self.phase, self._start = Phase.FORMING, formed.start
            self._done.append(effects.FormRound(formed.start))

    def _on_change_near(self, _event: events.ChangeNear) -> None:
        if self._workers_left:
            self._done.append(effects.GiveNotice())

    # -- the agent --------------------------------------------------------------------------

    def _on_joined(self, joined: events.AgentJoined) -> None:
        self.phase = Phase.JOINED
        self._send(frames.READY, round_messages.Join(*joined))

    def _on_requested(self, requested: events.WorkersRequested) -> None:
        if self._template is not None:
            self._number += 1
            given = self._template, requested.environments, self._number
            self._start = agent_environment.round_of(*given)
        elif self.phase is Phase.FORMING and self._start is not None:
            self._start = agent_environment.of_agent(self._start, requested.environments)
        else:
            return
        self.phase = Phase.REQUESTED
        self._start_workers()

    def _start_workers(self) -> None:
        """Start those of a round that were requested, if those of the one before are gone."""
        if self.phase is not Phase.REQUESTED or self._workers_left or self._start is None:
            return
        self.phase, self._workers_left = Phase.RUNNING, True
        if self._template is not None:
            self._send(frames.RANKS, agent_environment.ranks(self._start))
        self._done.append(events.StartWorkers(self._start))

    def _on_stop_requested(self, stop: events.StopRequested) -> None:
        if self._workers_left:
            grace = 0.0 if stop.number == signal.SIGKILL else self._grace
            self._done.append(events.StopWorkers(stop.number, grace))
        if self.phase is Phase.REQUESTED:
            # The agent leaves the round before its workers were started: they end at once.
            self.phase = Phase.JOINING
            self._end_all(stop.number)

    def _on_finished(self, _event: events.RoundFinished) -> None:
        """Report it to the runner, which ends the job when all nodes of the round have finished."""
        if self.phase is Phase.RUNNING and self._start is not None and self._template is None:
            self._send(frames.FINISHED, round_messages.Finished(self._start.generation))

    def _on_agent_ended(self, ended: events.AgentEnded) -> None:
        self.stop()
        failure = ended.failure
        if failure is not None:
            self._send(frames.AGENT_FAILED, failure)
        self._done.append(events.RoundsEnded(failure.reason if failure else ""))

    # -- the workers ------------------------------------------------------------------------

    def _on_exited(self, exited: events.WorkerExited) -> None:
        """Tell the agent, unless it is of an earlier round."""
        if self.phase is Phase.RUNNING and self._start is not None:
            local = exited.rank - self._start.first_rank
            self._done.append(effects.EndWorker(local, exited.code))

    def _on_not_started(self, event: events.NotStarted) -> None:
        self._end_all(event.number)
        self._done.append(effects.EndNotice())

    def _end_all(self, number: int) -> None:
        """Have the agent see all workers of the round end by a signal."""
        self._done += [effects.EndWorker(local, -number) for local in range(self._workers)]

    def _on_workers_gone(self, _event: events.WorkersGone) -> None:
        """Continue without a notice, which the next workers would see."""
        self._workers_left = False
        self._done.append(effects.EndWorkers())
        self._start_workers()
