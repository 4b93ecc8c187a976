"""The rounds of a job without nodes: what they ask for is noted."""

from __future__ import annotations

from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Any

from dsrun.launcher.features.elastic.runner_rounds import Rounds
from dsrun.launcher.specs.policies import ElasticPolicy

from .clock import Clock

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dsrun.launcher.common.loop import Timer


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
        self.decided_now: deque[Callable[[], object]] = deque()
        later = self.decided_now.append
        self.rounds = Rounds(self, later, nodes, self.limits, self, self.clock.now)
        self.alarm: Timer | None = None
        self.busy = False
        self.tell(self.rounds.job_started, 0, "a0", range(1, nodes), {})

    def tell(self, happened: Callable[..., bool | None], *args: Any, **kwargs: Any) -> bool:
        """Something happens; return the answer of the rounds."""
        answer = happened(self.clock.now, *args, **kwargs)
        if self.alarm is not None:
            self.alarm.cancel()
        if self.rounds.due is not None:
            seconds = self.rounds.due - self.clock.now
            self.alarm = self.clock.loop.call_later(seconds, self.wake)
        if not self.busy:
            self.busy = True
            while self.decided_now:
                self.decided_now.popleft()()
            self.busy = False
        return answer is not False

    def wake(self) -> None:
        self.tell(self.rounds.time_passed)

    # -- the table of nodes ---------------------------------------------------------------------

    def name(self, number: int) -> str:
        return f"n{number}"

    def slots(self, _number: int) -> int:
        return 1

    def fits(self, size: int) -> bool:
        return not self.sizes or size in self.sizes

    def may_start(self, members: Sequence[int]) -> bool:
        return not self.unchecked & {*members}

    def addresses(self, number: int) -> Sequence[str]:
        return (f"a{number}", f"b{number}")

    # -- what the rounds want done --------------------------------------------------------------

    def probe(self, first: int, nodes: tuple[int, ...]) -> None:
        self.probed.append((first, list(nodes)))
        self.answer(first, *nodes)

    def form(self, members: tuple[int, ...], address: str, restarts: int) -> None:
        assert address in self.addresses(members[0])
        self.formed.append(list(members))
        self.needed.append(restarts)

    def stop_round(self, nodes: tuple[int, ...]) -> None:
        self.called.append(list(nodes))

    def notify(self, nodes: tuple[int, ...]) -> None:
        self.noticed.append(list(nodes))

    def release(self, node: int) -> None:
        self.released.append(node)

    def lose(self, node: int, reason: str, *, for_good: bool) -> None:
        self.for_good += [node] if for_good else []
        self.lose_one(node, reason)

    def check(self, nodes: tuple[int, ...]) -> None:
        """Run nothing: a test says when the nodes have passed."""

    def stop_for_failure(self) -> None:
        self.decide(lost=False)

    def clear_failures(self) -> None:
        self.decide(lost=True)

    def decide(self, *, lost: bool) -> None:
        self.decided.append(lost)

    def stop_too_few(self) -> None:
        self.short = True

    def finish(self) -> None:
        self.ended = True

    def warn(self, text: str) -> None:
        self.said.append(text)

    def answer(self, first: int, *nodes: int) -> None:
        """Have nodes answer a probe soon, those that are not silent."""

        def say(node: int) -> None:
            bad = {first, node} in self.walls
            if node not in self.silent:
                self.tell(self.rounds.node_reached, node, ["no route" if bad else ""] * 2)

        for node in nodes:
            self.clock.loop.call_later(0.0, partial(say, node))

    def lose_one(self, node: int, reason: str) -> None:
        self.lost.append(node)
        self.reasons[node] = reason
        self.survives = self._left(node)
        if not self.survives:
            self.close()

    # -- what happens ---------------------------------------------------------------------------

    def failed(self, what: str, code: int, node: int, *, final: bool = False) -> bool:
        """A worker of a node has failed; return whether the job goes on."""
        return self.tell(self.rounds.worker_failed, what, code, node, final=final)

    def close(self) -> None:
        self.tell(self.rounds.job_stopped)

    def print(self) -> None:
        self.tell(self.rounds.worker_printed)

    def resize(self, most: int) -> None:
        self.tell(self.rounds.size_limited, most)

    def retire(self, node: int) -> bool:
        return self.tell(self.rounds.node_removed, node)

    def checked(self) -> None:
        """A node has passed the health command."""
        self.tell(self.rounds.nodes_checked)

    def came(self, node: int) -> bool:
        return self.tell(self.rounds.node_connected, node)

    def finished(self, node: int, generation: int) -> None:
        self.tell(self.rounds.node_finished, node, generation)

    def join(self, *nodes: int) -> None:
        for node in nodes:
            self.tell(self.rounds.node_ready, node)
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
        goes_on = self.tell(self.rounds.node_lost, node)
        assert goes_on is survives
        return goes_on

    def done(self, node: int) -> bool:
        """A node ends by itself, or because it was released."""
        goes_on = self.tell(self.rounds.node_done, node)
        self.clock.settle()
        return goes_on

    def go(self, seconds: float) -> None:
        """Let time pass."""
        self.clock.go(seconds)
        self.clock.settle()

    def finishes(self, *nodes: int) -> None:
        """All workers of these nodes end well in the present round."""
        for node in nodes:
            self.tell(self.rounds.node_finished, node, self.rounds.generation)

    def arrive(self, *nodes: int) -> None:
        """Nodes come, or come back, and are ready soon."""
        for node in nodes:
            assert self.tell(self.rounds.node_connected, node), node
        self.join(*nodes)


def running(nodes: int, **limits: Any) -> Job:
    """A job whose first round has been formed."""
    job = Job(nodes, **limits)
    job.join(*range(nodes))
    return job
