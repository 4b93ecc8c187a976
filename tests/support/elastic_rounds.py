"""The rounds of a job without nodes: what they ask for is noted."""

from __future__ import annotations

from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Any

from dsrun.launcher.head.elastic import round_events as events
from dsrun.launcher.head.elastic.round_actions import (
    CheckNodes,
    DropNode,
    EndForFailure,
    Finish,
    ForgetFailures,
    Form,
    Notify,
    ProbeMaster,
    ReleaseMember,
    StopRound,
    TooFew,
)
from dsrun.launcher.head.elastic.rounds import Rounds
from dsrun.launcher.head.run.effects import Log
from dsrun.launcher.specs.policies import ElasticPolicy

from .clock import Clock

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dsrun.launcher.common.loop import Timer
    from dsrun.launcher.head.elastic.round_actions import RoundAction
    from dsrun.launcher.head.elastic.round_events import RoundEvent


class Job:
    """Rounds, and what they have asked for.

    Attributes:
        formed: the members of every round.
        called: whom each change has called.
        noticed: whom each notice has told.
        released: who was let go.
        lost: who was given up.
        reasons: why.
        for_good: who was given up for good.
        survives: the job goes on without the last of them.
        short: there were too few nodes for too long.
        sizes: how many nodes a round may have; any number if there are none.
        unchecked: nodes whose round may not begin yet.
        probed: (first, nodes) of every probe.
        silent: nodes that do not answer probes.
        walls: pairs of nodes that do not reach each other.
        ended: all workers of a round have ended well.
        decided: of each failure that ends the job: whether it was the loss of a node.
        said: the lines for the user.
    """

    def __init__(
        self, nodes: int, least: int = 1, most: int = 99, restarts: int = 3, **more: Any
    ) -> None:
        self.clock = Clock()
        self.formed: list[list[int]] = []
        self.needed: list[int] = []
        self.called: list[list[int]] = []
        self.noticed: list[list[int]] = []
        self.released: list[int] = []
        self.lost: list[int] = []
        self.short = False
        self.sizes: set[int] = set()
        self.unchecked: set[int] = set()
        self.said: list[str] = []
        self.probed: list[tuple[int, list[int]]] = []
        self.silent: set[int] = set()
        self.walls: set[frozenset[int]] = set()
        self.ended = False
        self.reasons: dict[int, str] = {}
        self.for_good: list[int] = []
        self.survives = True
        self.limits = ElasticPolicy(least, most, restarts, **more)
        self.decided: list[bool] = []
        self.rounds = Rounds(nodes, self.limits, self, self.clock.now)
        self.actions: deque[RoundAction | Log] = deque()
        self.alarm: Timer | None = None
        self.handle(events.JobStarted(0, "a0", range(1, nodes), {}))

    def handle(self, event: RoundEvent) -> bool:
        """Something happens; return the answer of the rounds."""
        step = self.rounds.step(self.clock.now, event)
        idle = not self.actions
        self.actions.extend(step.actions)
        if self.alarm is not None:
            self.alarm.cancel()
        if self.rounds.due is not None:
            seconds = self.rounds.due - self.clock.now
            self.alarm = self.clock.loop.call_later(seconds, self.wake)
        while idle and self.actions:
            self.act(self.actions[0])
            self.actions.popleft()
        return step.accepted

    def wake(self) -> None:
        self.handle(events.RoundTimePassed())

    # -- the table of nodes ---------------------------------------------------------------------

    def name(self, number: int) -> str:
        return f"n{number}"

    def slots(self, _number: int) -> int:
        return 1

    def fits(self, size: int) -> bool:
        return not self.sizes or size in self.sizes

    def may_begin(self, members: Sequence[int]) -> bool:
        return not self.unchecked & {*members}

    def addresses(self, number: int) -> Sequence[str]:
        return (f"a{number}", f"b{number}")

    # -- what the rounds want done --------------------------------------------------------------

    def act(self, action: RoundAction | Log) -> None:
        """Note what the rounds want done."""
        match action:
            case ProbeMaster(first, nodes):
                self.probed.append((first, list(nodes)))
                self.answer(first, *nodes)
            case Form(members, address, restarts):
                assert address in self.addresses(members[0])
                self.form(list(members), restarts)
            case StopRound(nodes):
                self.called.append(list(nodes))
            case Notify(nodes):
                self.noticed.append(list(nodes))
            case ReleaseMember(node):
                self.released.append(node)
            case DropNode(node, reason, for_good):
                self.for_good += [node] if for_good else []
                self.lose_one(node, reason)
            case CheckNodes():
                pass
            case EndForFailure() | ForgetFailures():
                self.decide(isinstance(action, ForgetFailures))
            case TooFew():
                self.give_up()
            case Finish():
                self.ended = True
            case Log(text):
                self.said.append(text)

    def answer(self, first: int, *nodes: int) -> None:
        """Have nodes answer a probe soon, those that are not silent."""

        def say(node: int) -> None:
            bad = {first, node} in self.walls
            if node not in self.silent:
                self.handle(events.NodeReached(node, ["no route" if bad else ""] * 2))

        for node in nodes:
            self.clock.loop.call_later(0.0, partial(say, node))

    def form(self, members: list[int], restarts: int) -> None:
        self.formed.append(members)
        self.needed.append(restarts)

    def lose_one(self, node: int, reason: str) -> None:
        self.lost.append(node)
        self.reasons[node] = reason
        self.survives = self._left(node)
        if not self.survives:
            self.close()

    def give_up(self) -> None:
        self.short = True

    def decide(self, lost: bool) -> None:
        self.decided.append(lost)

    # -- what happens ---------------------------------------------------------------------------

    def failed(self, what: str, code: int, node: int, *, final: bool = False) -> bool:
        """A worker of a node has failed; return whether the job goes on."""
        return self.handle(events.WorkerFailed(what, code, node, final))

    def close(self) -> None:
        self.handle(events.JobStopped())

    def print(self) -> None:
        self.handle(events.WorkerPrinted())

    def resize(self, most: int) -> None:
        self.handle(events.SizeLimited(most))

    def retire(self, node: int) -> bool:
        return self.handle(events.NodeRemoved(node))

    def checked(self) -> None:
        """A node has passed the health command."""
        self.handle(events.NodesChecked())

    def came(self, node: int) -> bool:
        return self.handle(events.MemberConnected(node))

    def finished(self, node: int, generation: int) -> None:
        self.handle(events.NodeFinished(node, generation))

    def join(self, *nodes: int) -> None:
        for node in nodes:
            self.handle(events.NodeReady(node))
        self.clock.settle()

    def leave(self, node: int) -> bool:
        """A node is lost."""
        goes_on = self._left(node)
        self.clock.settle()
        return goes_on

    def _left(self, node: int) -> bool:
        """Record that a node is lost; what was said of that before is what comes of it."""
        survives = self.rounds.survives(node)
        assert self.rounds.survives(node) is survives, "a question changes nothing"
        goes_on = self.handle(events.NodeLost(node))
        assert goes_on is survives
        return goes_on

    def done(self, node: int) -> bool:
        """A node ends by itself, or because it was released."""
        goes_on = self.handle(events.NodeDone(node))
        self.clock.settle()
        return goes_on

    def go(self, seconds: float) -> None:
        """Let time pass."""
        self.clock.go(seconds)
        self.clock.settle()

    def finish(self, *nodes: int) -> None:
        """All workers of these nodes end well in the present round."""
        for node in nodes:
            self.handle(events.NodeFinished(node, self.rounds.generation))

    def arrive(self, *nodes: int) -> None:
        """Nodes come, or come back, and are ready soon."""
        for node in nodes:
            assert self.handle(events.MemberConnected(node)), node
        self.join(*nodes)


def running(nodes: int, **limits: Any) -> Job:
    """A job whose first round has been formed."""
    job = Job(nodes, **limits)
    job.join(*range(nodes))
    return job
