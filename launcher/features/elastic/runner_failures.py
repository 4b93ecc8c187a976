"""The failures of a job: their cost, and the nodes where they begin repeatedly."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ...specs.policies import ElasticPolicy
    from .runner_round_state import NodeStates

LONGEST = 60.0
"""Maximum delay between a failure and the next round, in seconds. The first restart is not delayed,
the second by 1 s, and each further one by twice the previous delay."""


class RestartBudget:
    """The restarts of one job.

    Attributes:
        restarts: the number of restarts of the whole job.
    """

    def __init__(self, limits: ElasticPolicy, clock: Callable[[], float]) -> None:
        self._limits = limits
        self._clock = clock
        self._times: list[float] = []
        self.restarts = 0

    def spend(self, code: int, lasted: float) -> bool:
        """Spend a restart on a failed round, if one is left and the failure is worth it.

        Args:
            code: the failed worker's exit code.
            lasted: seconds since the round began.
        """
        limits, recent = self._limits, self._recent()
        early = lasted < limits.uptime
        if early or code in limits.final or len(recent) >= limits.restarts:
            return False
        self._times = [*recent, self._clock()]
        self.restarts += 1
        return True

    def refund(self) -> None:
        """Take the last restart back: its cause was not a failure."""
        self._times.pop()
        self.restarts -= 1

    @property
    def delay(self) -> float:
        """Seconds to wait before the round of the last restart."""
        spent = len(self._recent())
        return min(LONGEST, 2.0 ** (spent - 2)) if spent > 1 else 0.0

    @property
    def count(self) -> str:
        """The spent part of the budget, as in `1/3`."""
        return f"{len(self._recent())}/{self._limits.restarts}"

    def _recent(self) -> list[float]:
        """Return the times of the restarts that count now."""
        window = self._limits.window
        since = self._clock() - window if window else 0.0
        return [time for time in self._times if time >= since]


FAILURES = 3
"""Failures that begin on one node and no other, until that node is excluded."""

WINDOW = 600.0
"""Seconds for which a failure counts."""


class ExcludedNodes:
    """The nodes that are excluded, and until when."""

    def __init__(self, cool: float, clock: Callable[[], float]) -> None:
        """Exclude nodes for `cool` seconds; 0 for never."""
        self._cool = cool
        self._clock = clock
        self._until: dict[int, float] = {}
        self._failures: list[tuple[float, int]] = []

    def record(self, node: int) -> set[int]:
        """Record where a failure began; return the nodes that are no longer excluded.

        A failure elsewhere shows that the node is not to blame: a bug may show on one rank only.
        """
        now = self._clock()
        self._failures = [one for one in self._failures if now - one[0] < WINDOW] + [(now, node)]
        cleared = self.excluded() & {one for _, one in self._failures} - {node}
        for other in cleared:
            del self._until[other]
        return cleared

    def undo(self) -> None:
        """Forget the last failure: something else has caused it."""
        _, node = self._failures.pop()
        self._until.pop(node, None)

    def is_bad(self, node: int) -> bool:
        """Return whether failures begin on this node repeatedly, and on no other."""
        nodes = [one for _, one in self._failures]
        return bool(self._cool) and len(nodes) >= FAILURES and set(nodes) == {node}

    def exclude(self, node: int) -> None:
        """Exclude a node for a while."""
        self._until[node] = self._clock() + self._cool

    def excluded(self) -> set[int]:
        """Return the nodes that are excluded now."""
        now = self._clock()
        return {node for node, until in self._until.items() if now < until}


class Failures:
    """Counts failures, and excludes a node for a while if failures begin on it alone.

    Attributes:
        not_before: the earliest time of the next round after the last failure.
    """

    def __init__(
        self,
        limits: ElasticPolicy,
        clock: Callable[[], float],
        name: Callable[[int], str],
        warn: Callable[[str], None],
    ) -> None:
        """Create a budget without restarts; `name` returns the user's name for a node."""
        self._clock = clock
        self._name = name
        self._warn = warn
        self._limits = limits
        self._budget = RestartBudget(limits, clock)
        self._excluded = ExcludedNodes(limits.cool, clock)
        self._blamed = False
        self.not_before = 0.0

    @property
    def restarts(self) -> int:
        """The number of failures that were survived."""
        return self._budget.restarts

    @property
    def excluded(self) -> set[int]:
        """The nodes that are excluded now."""
        return self._excluded.excluded()

    def survive(self, what: str, code: int, lasted: float) -> bool:
        """Spend a restart on a failure, if one is left and the failure is worth it."""
        if not self._budget.spend(code, lasted):
            return False
        self._blamed = False
        delay = self._budget.delay
        self.not_before = self._clock() + delay
        wait = f"; waiting {delay:g} s" if delay else ""
        self._warn(f"restart {self._budget.count}: {what}{wait}")
        return True

    def doubt(self, lasted: float) -> None:
        """Warn about a round whose work was done suspiciously soon: nothing else would show it."""
        if lasted < self._limits.uptime:
            text = f"workers ended with code 0 after {lasted:.1f} s, sooner than --min_uptime"
            self._warn(f"{text} {self._limits.uptime:g}: was there nothing to do?")

    def blame(self, node: int, nodes: NodeStates) -> bool:
        """Record the node where a failure began; return whether the node is now excluded.

        It is if failures begin there repeatedly, and on no other node, and the other nodes are
        enough. A failure elsewhere brings excluded nodes back.
        """
        name, self._blamed = self._name(node), True
        for other in self._excluded.record(node):
            back = self._name(other)
            self._warn(f"a failure also began on {name}: {back} is no longer excluded")
        away = [one for one in self.excluded | {node} if one in nodes]
        if not self._excluded.is_bad(node) or len(nodes) - len(away) < self._limits.least:
            return False
        self._excluded.exclude(node)
        cool = self._limits.cool
        why = f"{FAILURES} failures within {WINDOW / 60:g} minutes began on {name}"
        self._warn(f"{why}, and none elsewhere: excluding it for {cool:g} s (--cool_down)")
        return True

    def take_back(self) -> None:
        """Do not count the last failure: the loss of a node has caused it."""
        self._budget.refund()
        if self._blamed:
            self._excluded.undo()
        self.not_before = 0.0
        self._warn("that restart is not counted: a node was lost")
