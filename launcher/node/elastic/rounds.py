"""A node's part in the rounds of a job: torch's agent, and a group of workers for every round.

The rounds are the runner's, or those of torch's own rendezvous, where the agent meets the agents of
other nodes. In both the agent says when workers start and stop.
"""

from __future__ import annotations

import os
import signal
from enum import Enum
from functools import partial

from ...control import frames, messages
from ...specs import environment
from ..workers.spawn import SpawnFailed
from . import agent_environment, commands
from .agent_process import AgentProcess
from .change_notice import ChangeNotice
from .events import (
    AgentEnded,
    AgentJoined,
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

    from ...common.loop import Loop
    from ...control.messages import AgentFailure, Start
    from ..workers.prepare import NodeSetup
    from .events import AgentEvent, EmitRounds


STUCK = 2.0
"""Seconds for torch's agents to agree on ranks, once their round is over."""


class Phase(Enum):
    """Where the agent is.

    Attributes:
        JOINING: on its way to a round.
        JOINED: waiting for one of the runner's.
        FORMING: in a round, whose ranks it learns from the other agents.
        REQUESTED: it has requested the workers; those of the round before are not gone yet.
        RUNNING: the round's workers were started.
        OVER: there will be no other round.
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
        handlers: what is done with the runner's frames about rounds.
    """

    def __init__(
        self,
        loop: Loop,
        setup: NodeSetup,
        start: Start,
        send: Callable[[bytes], None],
        emit: EmitRounds,
    ) -> None:
        """Start the agent; frames go to the runner by `send`, all else to `emit`.

        Raises:
            SpawnFailed: it cannot be started.
        """
        self.handlers = {
            frames.ROUND: self._on_round,
            frames.CHANGE: self._on_change,
            frames.NOTICE: self._on_notice,
        }
        self._loop = loop
        self._send = send
        self._emit = emit
        self._grace = setup.task.grace
        self._template = start if setup.task.rendezvous is not None else None
        self._workers = len(start.slots)
        self._phase = Phase.JOINING
        self._number = 0
        self._start: Start | None = None
        self._workers_left = False
        self._held: list[tuple[int, int]] | None = None
        self._ended_well = 0
        how = os.fsdecode(environment.from_wire(setup.task.notice))
        self._notice = ChangeNotice(how, setup.workdir, self._note)
        command = partial(commands.agent, setup, start)
        self._spawn_agent = partial(AgentProcess, loop, command, self._on_event, self._workers)
        self._agent = self._spawn_agent()

    @property
    def agent(self) -> int:
        """The pid of torch's agent; there may be another one in the midst of a round."""
        return self._agent.pid

    @property
    def over(self) -> bool:
        """Whether there will be no other round."""
        return self._phase is Phase.OVER

    def exited(self, rank: int, code: int) -> None:
        """Tell the agent that a worker has ended; those of a former round are forgotten by now.

        Nor does it hear of one once the job is being stopped: it would ask for another round.
        """
        if self._phase is not Phase.RUNNING or self._start is None:
            return
        local = rank - self._start.first_rank
        if self._held is not None:
            # It may have ended because of the change: its work need not be done.
            self._held.append((local, code))
        else:
            self._tell_end(local, code)

    def workers_gone(self) -> None:
        """Start the next round's workers, if they wait for the end of this round's."""
        self._notice.end()
        self._workers_left = False
        self._start_workers()

    def stop(self) -> None:
        """Let there be no other round."""
        self._phase = Phase.OVER
        self._held = None

    def close(self) -> None:
        """End the agent."""
        self.stop()
        self._notice.end()
        self._agent.close()

    def _tell_end(self, local: int, code: int) -> None:
        self._ended_well += code == 0
        self._agent.ended(local, code)

    def _note(self, text: str) -> None:
        self._send(messages.pack(frames.NOTE, messages.Note(text)))

    # -- the runner's rounds ----------------------------------------------------------------

    def _on_round(self, body: bytes) -> None:
        """Tell the agent its place in a round."""
        start = messages.unpack(messages.Start, body)
        if self.over:
            return
        self._phase = Phase.FORMING
        self._start = start
        self._held, self._ended_well = None, 0
        self._agent.form(
            {
                "rank": start.node_rank,
                "nodes": start.nodes,
                "hosts": [start.master_addr, *start.otherwise],
                "port": start.master_port,
            }
        )

    def _on_change(self, _body: bytes) -> None:
        """Tell the agent to leave its round for another.

        One whose workers have all ended well waits for the other agents, and heeds nothing else.
        """
        if self.over:
            return
        if self._held is None:
            self._held = []
        if self._ended_well == self._workers:
            self._replace()
            return
        self._agent.change()
        if self._phase is Phase.FORMING:
            self._loop.call_later(STUCK, partial(self._replace_stuck, self._start))

    def _replace_stuck(self, start: Start | None) -> None:
        """Replace an agent that waits for the ranks of nodes which are gone, and heeds no more."""
        if self._start is start and self._phase is Phase.FORMING:
            self._replace()

    def _replace(self) -> None:
        self._phase = Phase.JOINING
        self._start = None
        self._held, self._ended_well = None, 0
        self._agent.close()
        try:
            self._agent = self._spawn_agent()
        except (SpawnFailed, OSError) as error:
            self._on_agent_ended(messages.AgentFailure(f"torch's agent does not start: {error}"))

    def _on_notice(self, _body: bytes) -> None:
        if self._workers_left:
            self._notice.give(lambda number: self._emit(SignalWorkers(number)))

    # -- the agent's events -----------------------------------------------------------------

    def _on_event(self, event: AgentEvent) -> None:
        match event:
            case AgentJoined(port):
                self._on_joined(port)
            case WorkersRequested(environments):
                self._on_requested(environments)
            case StopRequested(number):
                self._on_stop_requested(number)
            case AgentEnded(failure):
                self._on_agent_ended(failure)

    def _on_joined(self, port: int) -> None:
        if not self.over:
            self._phase = Phase.JOINED
        self._send(messages.pack(frames.JOIN, messages.Join(port, port)))

    def _on_requested(self, environments: Sequence[Mapping[str, str]]) -> None:
        if self.over:
            return
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
        held, self._held = self._held or [], None
        for local, code in held:
            self._tell_end(local, code)

    def _on_agent_ended(self, failure: AgentFailure | None) -> None:
        if self.over:
            return
        self.stop()
        if failure is not None:
            self._send(messages.pack(frames.AGENT_FAILED, failure))
        self._emit(RoundsEnded(failure.reason if failure else ""))
