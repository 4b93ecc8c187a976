"""A node's part in the rounds of a job: an agent, and a group of workers for every round.

The rounds are the runner's, or those of torch's rendezvous, where torch's agent meets the agents of
other nodes. In both the agent decides when workers start and stop.
"""

from __future__ import annotations

import os
import signal
from enum import Enum
from functools import partial

from ...control import frames, messages, round_messages
from ...specs import environment
from ..workers import agent_environment
from .change_notice import ChangeNotice
from .events import (
    AgentEnded,
    AgentJoined,
    RoundFinished,
    RoundsEnded,
    SignalWorkers,
    StartWorkers,
    StopRequested,
    StopWorkers,
    WorkersRequested,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Protocol

    from ...common.loop import Loop
    from ...control.messages import Start
    from ...control.round_messages import AgentFailure
    from ..blocking import Calls
    from ..workers.prepare import NodeSetup
    from .events import AgentEvent, EmitAgent, EmitRounds

    class Agent(Protocol):
        """Decides for the workers of one node, from round to round."""

        @property
        def pids(self) -> Sequence[int]:
            """Its processes among this process's children."""

        def begin(self) -> None:
            """Get ready for the first round."""

        def form(self, start: Start, /) -> None:
            """Take this node's place in a round of the runner's."""

        def change(self) -> None:
            """Leave the present round for another one."""

        def ended(self, local: int, code: int) -> None:
            """Record that a worker of the present round has ended, by its local rank."""

        def workers_gone(self) -> None:
            """Record that nothing is left of the workers that were started last."""

        def close(self) -> None:
            """Release everything; no event follows."""


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


class NodeRounds:
    """Carries out what the agent decides.

    Attributes:
        handlers: what to do with the runner's frames about rounds.
    """

    def __init__(
        self,
        loop: Loop,
        setup: NodeSetup,
        start: Start,
        send: Callable[[bytes], None],
        emit: EmitRounds,
        calls: Calls,
    ) -> None:
        """Make the agent; frames go to the runner by `send`, all else to `emit`.

        `calls` has the children of this run that touch files.
        """
        self.handlers = {
            frames.ROUND: self._on_round,
            frames.LEAVE_ROUND: self._on_change,
            frames.CHANGE_SOON: self._on_notice,
        }
        self._send = send
        self._emit = emit
        self._grace = setup.task.supervision.grace
        self._template = start if setup.task.rendezvous is not None else None
        self._workers = len(start.slots)
        self._phase = Phase.JOINING
        self._number = 0
        self._start: Start | None = None
        self._workers_left = False
        policy = setup.task.elastic
        how = os.fsdecode(environment.from_wire(policy.notice_by)) if policy else ""
        self._notice = ChangeNotice(how, setup.workdir, self._note, calls)
        self._agent = make_agent(loop, setup, start, self._on_event)

    def begin(self) -> None:
        """Start the agent."""
        self._agent.begin()

    @property
    def agents(self) -> Sequence[int]:
        """The agent's processes, which may be replaced during a round."""
        return self._agent.pids

    @property
    def over(self) -> bool:
        """Whether there is no further round."""
        return self._phase is Phase.OVER

    def exited(self, rank: int, code: int) -> None:
        """Tell the agent that a worker of the present round has ended.

        Once the job is being stopped the agent is told nothing: it would ask for another round.
        """
        if self._phase is Phase.RUNNING and self._start is not None:
            self._agent.ended(rank - self._start.first_rank, code)

    def not_started(self, number: int) -> None:
        """Record that no worker of this round was started: it was stopped with this signal."""
        if self.over:
            return
        for local in range(self._workers):
            self._agent.ended(local, -number)
        self.workers_gone()

    def workers_gone(self) -> None:
        """Record that this round's workers are gone; start those of the next one if they wait."""
        self._notice.end(self._on_workers_gone)

    def _on_workers_gone(self) -> None:
        """Continue without a notice, which the next workers would see."""
        if self.over:
            return
        self._workers_left = False
        self._agent.workers_gone()
        self._start_workers()

    def stop(self) -> None:
        """Start no further round."""
        self._phase = Phase.OVER

    def close(self, then: Callable[[], None] = lambda: None) -> None:
        """End the agent; call `then` once there is no notice any more."""
        self.stop()
        self._agent.close()
        self._notice.end(then)

    def _note(self, text: str) -> None:
        self._send(messages.pack(frames.NOTE, messages.Note(text)))

    # -- the runner's frames ----------------------------------------------------------------

    def _on_round(self, body: bytes) -> None:
        """Take this node's place in a round."""
        start = messages.unpack(messages.Start, body)
        if self._phase is not Phase.JOINED:
            return
        self._phase = Phase.FORMING
        self._start = start
        self._agent.form(start)

    def _on_change(self, _body: bytes) -> None:
        """Leave the round for another one."""
        if not self.over:
            self._agent.change()

    def _on_notice(self, _body: bytes) -> None:
        if self._workers_left:
            self._notice.give(lambda number: self._emit(SignalWorkers(number)))

    # -- the agent's events -----------------------------------------------------------------

    def _on_event(self, event: AgentEvent) -> None:
        if self.over:
            return
        match event:
            case AgentJoined(port, probe):
                self._phase = Phase.JOINED
                self._send(messages.pack(frames.READY, round_messages.Join(port, probe)))
            case WorkersRequested(environments):
                self._on_requested(environments)
            case StopRequested(number):
                self._on_stop_requested(number)
            case RoundFinished():
                self._on_finished()
            case AgentEnded(failure):
                self._on_agent_ended(failure)

    def _on_requested(self, environments: Sequence[Mapping[str, str]]) -> None:
        if self._template is not None:
            self._number += 1
            self._start = agent_environment.round_of(self._template, environments, self._number)
        elif self._phase is Phase.FORMING and self._start is not None:
            self._start = agent_environment.of_agent(self._start, environments)
        else:
            return
        self._phase = Phase.REQUESTED
        self._start_workers()

    def _start_workers(self) -> None:
        if self._phase is not Phase.REQUESTED or self._workers_left or self._start is None:
            return
        self._phase = Phase.RUNNING
        self._workers_left = True
        if self._template is not None:
            self._send(messages.pack(frames.RANKS, agent_environment.ranks(self._start)))
        self._emit(StartWorkers(self._start))

    def _on_stop_requested(self, number: int) -> None:
        if self._workers_left:
            grace = 0.0 if number == signal.SIGKILL else self._grace
            self._emit(StopWorkers(number, grace))
        if self._phase is Phase.REQUESTED:
            # The agent leaves the round before its workers were started: they end at once.
            self._phase = Phase.JOINING
            for local in range(self._workers):
                self._agent.ended(local, -number)

    def _on_finished(self) -> None:
        """Report it to the runner, which ends the job when all nodes of the round have finished."""
        if self._phase is Phase.RUNNING and self._start is not None and self._template is None:
            finished = round_messages.Finished(self._start.generation)
            self._send(messages.pack(frames.FINISHED, finished))

    def _on_agent_ended(self, failure: AgentFailure | None) -> None:
        self.stop()
        if failure is not None:
            self._send(messages.pack(frames.AGENT_FAILED, failure))
        self._emit(RoundsEnded(failure.reason if failure else ""))


def make_agent(loop: Loop, setup: NodeSetup, start: Start, emit: EmitAgent) -> Agent:
    """Return the agent that the task asks for; it tells its decisions to `emit`.

    It is dsrun's own for the runner's rounds; torch's, which is a process beside this one, for
    torch's rendezvous or if the user asks for it.
    """
    workers = len(start.slots)
    if setup.task.torch_agent:
        from .agent_process import agent_command
        from .torch_agent import TorchAgent

        return TorchAgent(loop, partial(agent_command, setup, start), emit, workers)
    from .dsrun_agent import DsrunAgent

    return DsrunAgent(loop, emit, workers)
