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


class Limits(NamedTuple):
    """How far a job may shrink, grow and fail.

    Attributes:
        least, most: nodes in a round.
        restarts: how often workers may be restarted after a failure.
    """

    least: int
    most: int
    restarts: int


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

    def __init__(self, nodes: int, limits: Limits, calls: Calls) -> None:
        self._limits = limits
        self._calls = calls
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

    def failed(self, what: str) -> bool:
        """Take in a worker's failure, and tell whether the job goes on; one counts in a round."""
        if self._failed == self.generation:
            return True
        if self._finished or self.restarts >= self._limits.restarts:
            return False
        self._failed = self.generation
        self.restarts += 1
        self._calls.say(f"restart {self.restarts}/{self._limits.restarts}: {what}")
        return True

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
        self.members = sorted(self._alive)[: self._limits.most]
        self.generation += 1
        self._told = False
        self._calls.form(list(self.members), self.restarts)
        for node in self.members:
            self._ports.pop(node)
