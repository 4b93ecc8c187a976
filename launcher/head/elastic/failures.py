"""The failures of a job: what they cost, and on which nodes they begin repeatedly."""

from __future__ import annotations

from .excluded_nodes import FAILURES, WINDOW, ExcludedNodes
from .restart_budget import RestartBudget

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ...specs.policies import ElasticPolicy
    from .node_states import NodeStates


class Failures:
    """Counts failures, and excludes nodes for a while on which alone they begin.

    Attributes:
        not_before: the time before which there is no round after the last failure.
    """

    def __init__(
        self,
        limits: ElasticPolicy,
        clock: Callable[[], float],
        name: Callable[[int], str],
        warn: Callable[[str], None],
    ) -> None:
        """Begin without any; `name` returns what the user calls a node."""
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
        """How many failures were survived."""
        return self._budget.restarts

    @property
    def excluded(self) -> set[int]:
        """The nodes that are excluded now."""
        return self._excluded.excluded()

    def survive(self, what: str, code: int, lasted: float) -> bool:
        """Spend a restart on a failure, if there is one left and it is worth it."""
        if not self._budget.spend(code, lasted):
            return False
        self._blamed = False
        delay = self._budget.delay
        self.not_before = self._clock() + delay
        wait = f"; waiting {delay:g} s" if delay else ""
        self._warn(f"restart {self._budget.count}: {what}{wait}")
        return True

    def doubt(self, lasted: float) -> None:
        """Warn where the work of a round was done suspiciously soon: nothing else would show it."""
        if lasted < self._limits.uptime:
            text = f"workers ended with code 0 after {lasted:.1f} s, sooner than --min_uptime"
            self._warn(f"{text} {self._limits.uptime:g}: was there nothing to do?")

    def blame(self, node: int, nodes: NodeStates) -> bool:
        """Record where a failure began; return whether that node is excluded from now on.

        It is if failures begin there repeatedly, and on no other node, and the other nodes are
        enough. A failure elsewhere brings excluded nodes back.
        """
        name, self._blamed = self._name(node), True
        for other in self._excluded.record(node):
            back = self._name(other)
            self._warn(f"a failure began on {name}, too: {back} is no longer excluded")
        away = [one for one in self.excluded | {node} if one in nodes]
        if not self._excluded.is_bad(node) or len(nodes) - len(away) < self._limits.least:
            return False
        self._excluded.exclude(node)
        cool = self._limits.cool
        why = f"{FAILURES} failures within {WINDOW / 60:g} minutes began on {name}"
        self._warn(f"{why}, and none elsewhere: excluding it for {cool:g} s (--cool_down)")
        return True

    def take_back(self) -> None:
        """Count nothing for the last failure: the loss of a node has caused it."""
        self._budget.refund()
        if self._blamed:
            self._excluded.undo()
        self.not_before = 0.0
        self._warn("that restart is not counted: a node was lost")
