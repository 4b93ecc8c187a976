"""A node's part in the rounds of a job: an agent, and a group of workers for each round.

The rounds are formed by the runner or, with torch's rendezvous, by torch's agents on all nodes. In
both cases the agent decides when workers start and stop.
"""

from __future__ import annotations

import os
from functools import partial

from ...control import frames, messages
from ...specs import environment
from .node_change_notice import ChangeNotice
from .node_rounds_state import RoundsState

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ...common.event_queue import EventQueue
    from ...common.loop import Loop
    from ...common.records import NamedTuple
    from ...control.messages import Start
    from ...control.round_messages import AgentFailure
    from ...node.machine.blocking import Calls
    from ...node.workers.prepare import NodeSetup
    from .node_rounds_state import Agent, AgentListener, RoundsOwner


class NodeRounds:
    """Carries out the decisions of the agent.

    Attributes:
        handlers: handlers of the runner's frames about rounds.
        agent: the agent, whose processes may be replaced during a round.
    """

    def __init__(
        self,
        loop: Loop,
        setup: NodeSetup,
        start: Start,
        send: Callable[[bytes], None],
        owner: RoundsOwner,
        calls: Calls,
        queue: EventQueue,
    ) -> None:
        """Make the agent; frames go to the runner by `send`, all else to `owner`.

        `calls` has the children of this run that access files; `queue` has the events of this node.
        """
        self._send, self._owner, self._queue = send, owner, queue
        template = start if setup.task.rendezvous is not None else None
        grace = setup.task.supervision.grace
        self._state = RoundsState(self, len(start.slots), grace, template)
        self.handlers: dict[int, Callable[[bytes], None]] = {
            frames.ROUND: self._on_round,
            frames.LEAVE_ROUND: lambda _body: queue.put(self._state.change_wanted),
            frames.CHANGE_SOON: lambda _body: queue.put(self._state.change_near),
        }
        policy = setup.task.elastic
        how = os.fsdecode(environment.from_wire(policy.notice_by)) if policy else ""
        self._notice = ChangeNotice(how, setup.workdir, self._note, calls)
        self.agent = make_agent(loop, setup, start, self)

    def start(self) -> None:
        """Start the agent."""
        self.agent.start()

    @property
    def agents(self) -> Sequence[int]:
        """The agent's processes, which may be replaced during a round."""
        return self.agent.pids

    def exited(self, rank: int, code: int) -> None:
        """Tell the agent that a worker of the present round has ended.

        During the job's stop the agent is not told: it would request another round.
        """
        self._queue.put(self._state.worker_exited, rank, code)

    def not_started(self, number: int) -> None:
        """Record that no worker of this round was started: it was stopped with this signal."""
        self._queue.put(self._state.not_started, number)

    def workers_gone(self) -> None:
        """Record the end of this round's workers; start the next round's workers if they wait."""
        self._notice.close(self._queue.later(self._state.workers_gone))

    def stop(self) -> None:
        """Start no further round."""
        self._state.stop()

    def close(self, then: Callable[[], None] = lambda: None) -> None:
        """End the agent; call `then` once the notice of a change is gone."""
        self.stop()
        self.agent.close()
        self._notice.close(then)

    def _on_round(self, body: bytes) -> None:
        self._queue.put(self._state.round_formed, messages.unpack(messages.Start, body))

    def _note(self, text: str) -> None:
        self._send(messages.pack(frames.NOTE, messages.Note(text)))

    # -- decisions of the agent (`AgentListener`) ---------------------------------------------

    def agent_joined(self, port: int, probe: int) -> None:
        """Handle an agent that waits for a round."""
        self._queue.put(self._state.agent_joined, port, probe)

    def workers_requested(self, environments: Sequence[Mapping[str, str]]) -> None:
        """Handle the agent's request for the workers of a round."""
        self._queue.put(self._state.workers_requested, environments)

    def stop_requested(self, number: int) -> None:
        """Handle the agent's request to stop the workers with this signal."""
        self._queue.put(self._state.stop_requested, number)

    def round_finished(self) -> None:
        """Handle the end of a round: all its workers have ended with code 0, and are gone."""
        self._queue.put(self._state.round_finished)

    def agent_ended(self, failure: AgentFailure | None) -> None:
        """Handle the end of the agent."""
        self._queue.put(self._state.agent_ended, failure)

    # -- decisions of its state (`RoundsActions`) ---------------------------------------------

    def send(self, kind: int, message: NamedTuple) -> None:
        """Send the runner a message in a frame of this kind."""
        self._send(messages.pack(kind, message))

    def start_workers(self, start: Start) -> None:
        """Ask the run to start the workers of this round."""
        self._queue.put(self._owner.workers_requested, start)

    def stop_workers(self, number: int, grace: float) -> None:
        """Ask the run to stop its workers: SIGKILL `grace` seconds after the signal."""
        self._queue.put(self._owner.round_stopped, number, grace)

    def give_notice(self) -> None:
        """Tell the workers that there will be another round soon."""
        self._notice.give(self._queue.later(self._owner.signal_came))

    def close_notice(self) -> None:
        """Take the notice back."""
        self.workers_gone()

    def finish(self, reason: str) -> None:
        """Ask the run to end."""
        self._queue.put(self._owner.rounds_ended, reason)


def make_agent(loop: Loop, setup: NodeSetup, start: Start, listener: AgentListener) -> Agent:
    """Return the agent for the task; it reports its decisions to `listener`.

    For the runner's rounds, it is dsrun's own. For torch's rendezvous, or at the user's request, it
    is torch's, a separate process.
    """
    workers = len(start.slots)
    if setup.task.torch_agent:
        from .node_agent_process import agent_command
        from .node_torch_agent import TorchAgent

        return TorchAgent(loop, partial(agent_command, setup, start), listener, workers)
    from .node_dsrun_agent import DsrunAgent

    return DsrunAgent(listener, workers)
