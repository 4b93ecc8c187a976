"""The rounds of an elastic job, as the runner forms them: who takes part, and in which order.

Membership is decided here and nowhere else, so ranks are dense, in the hosts' order, and the same
on every node. A round is formed when every node that is alive is ready for it: torch's agents come
by themselves after a failure, and are called where something has changed.
"""

from __future__ import annotations

from ..values import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ..loop import Loop

LONGEST = 60.0
"""Seconds at most between a failure and the next round. The first restart waits for nothing, the
second for 1 s, and each one for twice as long as the one before it."""


class Limits(NamedTuple):
    """How far a job may shrink, grow and fail.

    Attributes:
        least, most: nodes in a round.
        restarts: how often workers may be restarted after a failure.
        window: seconds in which so many restarts are allowed; 0 for the whole job.
        uptime: seconds that a round must have lasted, or its failure is not worth a restart.
        final: exit codes that are not worth one either, those of signals as a shell has them.
    """

    least: int
    most: int
    restarts: int
    window: float = 0.0
    uptime: float = 0.0
    final: frozenset[int] = frozenset()


class Calls(NamedTuple):
    """What is to be done, each by node number; called from the loop.

    Attributes:
        form: these nodes are the next round, in this order; so many restarts were needed.
        change: these nodes are to leave their round.
        say: a line for the user.
    """

    form: Callable[[list[int], int], None]
    change: Callable[[list[int]], None]
    say: Callable[[str], None]


class Rounds:
    """The course of one job's rounds.

    Attributes:
        generation: the number of the present round, from 1 on.
        members: the nodes in it.
        restarts: how many failures were survived.
    """

    def __init__(self, nodes: int, limits: Limits, calls: Calls, loop: Loop) -> None:
        """Wait for so many nodes; times are those of `loop`."""
        self._limits = limits
        self._calls = calls
        self._loop = loop
        self._times: list[float] = []
        self._began = self._not_before = 0.0
        self._alive = set(range(nodes))
        self._ports: dict[int, int] = {}
        self._finished = False
        self._failed = -1
        self._told = False
        self.generation = 0
        self.members: list[int] = []
        self.restarts = 0

    def joined(self, node: int, port: int) -> None:
        """Take in that a node is ready; whoever still runs is called where that changes a round."""
        self._ports[node] = port
        self._change()
        self._look()

    def came(self, node: int) -> bool:
        """Take in that a lost node is back, and tell whether it is of use: work is still to do."""
        if not self._finished and self._alive:
            self._alive.add(node)
        return node in self._alive

    def left(self, node: int) -> bool:
        """Take in that a node is gone, and tell whether the job goes on without it."""
        self._alive.discard(node)
        self._ports.pop(node, None)
        if self._finished or len(self._alive) < self._limits.least:
            return False
        if node in self.members:
            self.members.remove(node)
            self._change()
        self._look()
        return True

    def done(self, node: int) -> bool:
        """Take in that a node's workers have ended well, and tell whether the job goes on.

        It takes part no more, and from here on no failure is survived: a part of the work is done.
        But the other members may have failed just before, and be waiting for it.
        """
        self._finished = True
        self._alive.discard(node)
        self._ports.pop(node, None)
        waiting = self._ports.keys() & set(self.members)
        if waiting and len(self._alive) < self._limits.least:
            return False
        if waiting:
            self._look()
        return True

    def failed(self, what: str, code: int) -> bool:
        """Take in a worker's failure, and tell whether the job goes on; one counts in a round."""
        if self._failed == self.generation:
            return True
        now, recent = self._loop.clock(), self._recent()
        early = now - self._began < self._limits.uptime
        spent = len(recent) >= self._limits.restarts
        if self._finished or early or spent or code in self._limits.final:
            return False
        self._failed = self.generation
        self.restarts += 1
        self._times = [*recent, now]
        delay = min(LONGEST, 2.0 ** (len(recent) - 1)) if recent else 0.0
        self._not_before = now + delay
        wait = f"; waiting {delay:g} s" if delay else ""
        self._calls.say(f"restart {len(recent) + 1}/{self._limits.restarts}: {what}{wait}")
        return True

    def _recent(self) -> list[float]:
        """When the restarts were that count against the budget."""
        since = self._loop.clock() - self._limits.window if self._limits.window else 0.0
        return [time for time in self._times if time >= since]

    def close(self) -> None:
        """Form no other round: the job is being stopped."""
        self._alive.clear()

    def port(self, node: int) -> int:
        """Return where the store of a node's agent is."""
        return self._ports[node]

    def _running(self) -> list[int]:
        return [node for node in self.members if node in self._alive and node not in self._ports]

    def _change(self) -> None:
        """Call those that run, once a round."""
        if not self._told and self._running():
            self._told = True
            self._calls.change(self._running())

    def _look(self) -> None:
        if not self._alive or self._alive - self._ports.keys():
            return
        wait = self._not_before - self._loop.clock()
        if wait > 0:
            self._loop.after(wait, self._look)
            return
        self._began = self._loop.clock()
        self.members = sorted(self._alive)[: self._limits.most]
        self.generation += 1
        self._told = False
        self._calls.form(list(self.members), self.restarts)
        for node in self.members:
            self._ports.pop(node)
