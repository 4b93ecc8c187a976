"""A node's part in the rounds of a job: an agent, and a group of workers for every round.

The rounds are the runner's, or those of torch's rendezvous, where torch's agent meets the agents of
other nodes. In both the agent decides when workers start and stop.
"""

from __future__ import annotations

import os
from functools import partial

from ...control import frames, messages
from ...specs import environment
from . import effects, events
from .change_notice import ChangeNotice
from .rounds_state import RoundsState

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any, Protocol

    from ...common.event_queue import EventQueue
    from ...common.loop import Loop
    from ...control.messages import Start
    from ..machine.blocking import Calls
    from ..workers.prepare import NodeSetup
    from .events import EmitAgent, EmitRounds

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
        queue: EventQueue,
    ) -> None:
        """Make the agent; frames go to the runner by `send`, all else to `emit`.

        `calls` has the children of this run that touch files; `queue` has what happens on this
        node.
        """
        handle, self._send, self._queue = self._handle, send, queue
        self.handlers: dict[int, Callable[[bytes], None]] = {
            frames.ROUND: self._on_round,
            frames.LEAVE_ROUND: lambda _body: handle(events.ChangeWanted()),
            frames.CHANGE_SOON: lambda _body: handle(events.ChangeNear()),
        }
        template = start if setup.task.rendezvous is not None else None
        grace = setup.task.supervision.grace
        self._state = RoundsState(len(start.slots), grace, template)
        policy = setup.task.elastic
        how = os.fsdecode(environment.from_wire(policy.notice_by)) if policy else ""
        self._notice = ChangeNotice(how, setup.workdir, self._note, calls)
        self._agent = make_agent(loop, setup, start, handle)
        self._perform = self._table(emit)

    def _table(self, emit: EmitRounds) -> dict[type, Callable[[Any], None]]:
        """Return what carries out each kind of effect."""
        agent = self._agent
        return {
            effects.Send: lambda it: self._send(it.frame),
            effects.FormRound: lambda it: agent.form(it.start),
            effects.ChangeRound: lambda _it: agent.change(),
            effects.EndWorker: lambda it: agent.ended(*it),
            effects.EndWorkers: lambda _it: agent.workers_gone(),
            effects.GiveNotice: lambda _it: self._notice.give(
                lambda number: emit(events.SignalWorkers(number))
            ),
            effects.EndNotice: lambda _it: self.workers_gone(),
            **dict.fromkeys((events.StartWorkers, events.StopWorkers, events.RoundsEnded), emit),
        }

    def _handle(self, event: object) -> None:
        self._queue.put(self._step, event)

    def _step(self, event: object) -> None:
        for effect in self._state.step(event):
            self._perform[type(effect)](effect)

    def begin(self) -> None:
        """Start the agent."""
        self._agent.begin()

    @property
    def agents(self) -> Sequence[int]:
        """The agent's processes, which may be replaced during a round."""
        return self._agent.pids

    def exited(self, rank: int, code: int) -> None:
        """Tell the agent that a worker of the present round has ended.

        Once the job is being stopped the agent is told nothing: it would ask for another round.
        """
        self._handle(events.WorkerExited(rank, code))

    def not_started(self, number: int) -> None:
        """Record that no worker of this round was started: it was stopped with this signal."""
        self._handle(events.NotStarted(number))

    def workers_gone(self) -> None:
        """Record that this round's workers are gone; start those of the next one if they wait."""
        self._notice.end(partial(self._handle, events.WorkersGone()))

    def stop(self) -> None:
        """Start no further round."""
        self._state.stop()

    def close(self, then: Callable[[], None] = lambda: None) -> None:
        """End the agent; call `then` once there is no notice any more."""
        self.stop()
        self._agent.close()
        self._notice.end(then)

    def _on_round(self, body: bytes) -> None:
        self._handle(events.RoundFormed(messages.unpack(messages.Start, body)))

    def _note(self, text: str) -> None:
        self._send(messages.pack(frames.NOTE, messages.Note(text)))


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

    return DsrunAgent(emit, workers)
