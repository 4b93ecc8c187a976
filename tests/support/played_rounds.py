"""A node's rounds as a test plays them: frames in, events and frames out; no run, no workers."""

from __future__ import annotations

import json
import os
import signal
from typing import TYPE_CHECKING, Any

from dsrun.launcher.common.event_queue import EventQueue
from dsrun.launcher.control import frames
from dsrun.launcher.control.messages import Start
from dsrun.launcher.features.elastic.node_rounds import NodeRounds
from dsrun.launcher.node.machine.blocking import Calls

from .clock import Clock
from .fake_nodes import NAMES
from .node_setup import node_setup
from .recorder import Recorder

if TYPE_CHECKING:
    from collections.abc import Callable

    from dsrun.launcher.control.messages import NodeJob

    from .fake_agent import FakeAgents

START = Start(0, (0, 1), 2, 0, 1, "h", 1, 1)
ROUND = Start(4, (0, 1), 6, 2, 3, "h0", 77, 1, generation=1)
GRACE = 12.0


class PlayedRounds:
    """The rounds of a node with two workers, and what has come of them."""

    def __init__(self, task: NodeJob) -> None:
        self.clock = Clock()
        self.out: list[Any] = []
        self.setup = node_setup(task, print)
        self.calls = Calls(self.clock.loop)
        self.queue = EventQueue()
        told = self._send, Recorder(self.out), self.calls, self.queue
        self.rounds = NodeRounds(self.clock.loop, self.setup, START, *told)
        self.rounds.start()

    def _send(self, frame: bytes) -> None:
        ((kind, body),) = frames.Decoder().feed(frame)
        self.out.append((NAMES[kind], json.loads(body)))

    def called(self) -> None:
        """Have the children answer that touch files."""
        for pid in self.calls.pids:
            os.waitpid(pid, 0)
            self.clock.settle()
            self.calls.on_reaped({pid: 0})

    def came(self, seconds: float = 0.0) -> list[Any]:
        """What has come of it since the last time, and so many seconds more."""
        self.clock.settle()
        self.clock.go(seconds)
        self.clock.settle()
        out = self.out[:]
        self.out.clear()
        return out

    def together(self, *happen: Callable[[], object]) -> None:
        """Let these happen before anything is done of them."""
        self.queue.put(lambda: [one() for one in happen])

    def forms(self, start: Start = ROUND) -> None:
        """The runner has formed a round."""
        self.rounds.handlers[frames.ROUND](json.dumps(start._asdict()).encode())

    def change(self) -> None:
        """The runner wants another round."""
        self.rounds.handlers[frames.LEAVE_ROUND](b"")

    def notice(self) -> None:
        """The runner will want one soon."""
        self.rounds.handlers[frames.CHANGE_SOON](b"")


class TorchRounds(PlayedRounds):
    """Rounds with torch's agent: its process is real, and the test says what it says."""

    def __init__(self, agents: FakeAgents, **task: Any) -> None:
        self.agents = agents
        super().__init__(agents.task(grace=GRACE, **task))
        self.agent = agents.accept()

    @property
    def pid(self) -> int:
        """The pid of the agent that there is now."""
        (pid,) = self.rounds.agents
        return pid

    def joins(self) -> None:
        """The agent joins a round."""
        self.agent.says(join=4711)
        assert self.came() == [("READY", {"port": 4711, "probe": 4711})]

    def started(self, start: Start = ROUND) -> None:
        """The agent has joined, and requested the workers of a round, which were started."""
        self.joins()
        self.forms(start)
        self.agent.told()
        self.requests()
        assert self.came() == [starts(found(start))]

    def requests(self) -> None:
        """The agent requests its workers."""
        self.agent.requests(0, 1)

    def codes(self) -> list[int | None]:
        """How the shims of the newest round were told to end."""
        return [shim.code for shim in self.agent.shims[-2:]]

    def next_agent(self) -> None:
        """Another agent has taken the place of this one."""
        self.agent = self.agents.accept()


def starts(start: Start) -> tuple[str, Start]:
    """The workers of a round are to be started."""
    return ("workers_requested", start)


def stops(number: int = signal.SIGTERM, grace: float = GRACE) -> tuple[str, int, float]:
    """The workers of a round are to be stopped."""
    return ("round_stopped", number, grace)


def ends(reason: str) -> tuple[str, str]:
    """The run is to end, as no round follows."""
    return ("rounds_ended", reason)


def found(start: Start) -> Start:
    """A round with what torch's agent has said of it."""
    return start._replace(agent_variables=({}, {}))


def finished(generation: int = 1) -> tuple[str, dict[str, int]]:
    """What the runner is told once all workers of a round have ended well here."""
    return ("FINISHED", {"generation": generation})
