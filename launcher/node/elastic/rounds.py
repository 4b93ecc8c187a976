"""A node's part in the rounds of a job: torch's agent, and a crew for every round.

The rounds are the runner's, or those of torch's own rendezvous, where the agent meets the agents of
other nodes. In both the agent says when workers start and stop.
"""

from __future__ import annotations

import os
import signal
from functools import partial

from ...common.values import NamedTuple
from ...control import frames, messages
from ...specs import environment
from . import agent_environment
from .agent_events import Desk, Visits
from .change_notice import Notice

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ...common.loop import Loop
    from ...control.messages import Left, Start
    from ..workers.group import Crew
    from ..workers.prepare import Outfit


STUCK = 2.0
"""Seconds for torch's agents to agree on ranks, once their round is over."""


class Calls(NamedTuple):
    """What the rounds ask of the session; each is called from the loop.

    Attributes:
        send: send a frame to the runner.
        hire: start this round's workers.
        over: there will be no other round; "" if all ended well, else the reason.
    """

    send: Callable[[bytes], None]
    hire: Callable[[Start], Crew]
    over: Callable[[str], None]


class Agency:
    """Carries out what the agent decides.

    Attributes:
        over: there will be no other round.
        handlers: what is done with the runner's frames about rounds.
    """

    def __init__(self, loop: Loop, outfit: Outfit, start: Start, calls: Calls) -> None:
        """Start the agent.

        Raises:
            SpawnFailed: it cannot be started.
        """
        self.over = False
        self.handlers = {
            frames.ROUND: self._on_round,
            frames.CHANGE: self._on_change,
            frames.NOTICE: self._on_notice,
        }
        self._calls = calls
        self._grace = outfit.task.grace
        self._order = start if outfit.task.rendezvous is not None else None
        self._number = 0
        self._start: Start | None = None
        self._hired: Start | None = None
        self._crew: Crew | None = None
        self._manned = False
        self._workers = len(start.slots)
        self._changing = False
        self._held: list[tuple[int, int]] = []
        self._well = 0
        self._joined = False
        self._loop = loop
        how = os.fsdecode(environment.from_wire(outfit.task.notice))
        self._notice = Notice(how, outfit.workdir, self._say)
        visits = Visits(self._on_joined, self._on_manned, self._on_stopped, self._on_left)
        self._hire_agent = partial(
            Desk, loop, lambda fd: outfit.agent(start, fd), visits, self._workers
        )
        self._desk = self._hire_agent()

    @property
    def agent(self) -> int:
        """The pid of torch's agent; there may be another one in the midst of a round."""
        return self._desk.pid

    @property
    def resting(self) -> bool:
        """Whether no worker of any round is left here."""
        return self._crew is None

    def exited(self, rank: int, code: int) -> None:
        """Tell the agent that a worker has ended; those of a former round are forgotten by now.

        Nor is it told once the job is being stopped: it would ask for another round.
        """
        if self._start is None or self._start is not self._hired or self.over:
            return
        local = rank - self._start.first_rank
        if self._changing:
            # It may have ended because it was asked to: its work need not be done.
            self._held.append((local, code))
        else:
            self._tell_end(local, code)

    def rested(self) -> None:
        """Take in that nothing of a round is left; the next may have been waiting for that."""
        self._notice.end()
        self._crew = None
        self._hire()

    def close(self) -> None:
        """End the agent."""
        self.over = True
        self._notice.end()
        self._desk.close()

    def _tell_end(self, local: int, code: int) -> None:
        self._well += code == 0
        self._desk.ended(local, code)

    def _say(self, text: str) -> None:
        self._calls.send(messages.pack(frames.NOTE, messages.Note(text)))

    # -- the runner's rounds ----------------------------------------------------------------

    def _on_joined(self, port: int) -> None:
        self._joined = True
        self._calls.send(messages.pack(frames.JOIN, messages.Join(port)))

    def _on_round(self, body: bytes) -> None:
        """Tell the agent its place in a round."""
        start = messages.unpack(messages.Start, body)
        self._start = start
        self._joined = self._manned = self._changing = False
        self._held, self._well = [], 0
        self._desk.form(
            {
                "rank": start.node_rank,
                "nodes": start.nodes,
                "hosts": [start.master_addr, *start.otherwise],
                "port": start.master_port,
            }
        )

    def _on_change(self, _body: bytes) -> None:
        """Have the agent leave its round for another.

        One whose workers have all ended well waits for the other agents, and heeds nothing else.
        """
        self._changing = True
        if self._well < self._workers:
            self._desk.change()
            if self._start is not None and not self._start.said:
                self._loop.after(STUCK, partial(self._replace_stuck, self._start))
        else:
            self._replace()

    def _replace_stuck(self, start: Start) -> None:
        """Replace an agent that waits for the ranks of nodes which are gone, and heeds no more."""
        if self._start is start and not self._joined:
            self._replace()

    def _replace(self) -> None:
        if not self.over:
            self._start = None
            self._desk.close()
            self._desk = self._hire_agent()

    def _on_notice(self, _body: bytes) -> None:
        if self._crew is not None:
            self._notice.give(self._crew.signal_all)

    # -- the agent's word -------------------------------------------------------------------

    def _on_manned(self, said: list[dict[str, str]]) -> None:
        if self._order is not None:
            self._number += 1
            self._start = agent_environment.round_of(self._order, said, self._number)
        elif self._start is not None:
            self._start = agent_environment.of_agent(self._start, said)
        self._manned = True
        self._hire()

    def _hire(self) -> None:
        if self._manned and self._crew is None and not self.over and self._start is not None:
            self._manned = False
            self._hired = self._start
            if self._order is not None:
                self._calls.send(messages.pack(frames.RANKS, agent_environment.ranks(self._start)))
            self._crew = self._calls.hire(self._start)

    def _on_stopped(self, number: int) -> None:
        if self._crew is not None:
            self._crew.stop(number, 0.0 if number == signal.SIGKILL else self._grace)
        self._changing = False
        held, self._held = self._held, []
        for local, code in held:
            self._tell_end(local, code)

    def _on_left(self, left: Left | None) -> None:
        if self.over:
            return
        self.over = True
        if left is not None:
            self._calls.send(messages.pack(frames.LEFT, left))
        self._calls.over(left.why if left else "")
