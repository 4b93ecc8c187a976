"""Where the nodes of the next round meet: an address of the first one that all others reach."""

from __future__ import annotations

from functools import partial

from ...common.wording import counted
from .reachability import Reachability

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from ...common.loop import Timers
    from .node_directory import NodeDirectory
    from .round_actions import RoundAction

PROBE = 6.0
"""Seconds for a node that is new to a round to answer a probe; a node launcher takes 5 at most."""


class MasterSelection:
    """Finds it, and gives up nodes which stand in the way.

    Attributes:
        points: what probes have shown so far.
        members: the nodes of the next round while some of them are probed; others have to wait for
            a later one.
    """

    def __init__(
        self,
        timers: Timers,
        patience: float,
        table: NodeDirectory,
        act: Callable[[RoundAction], None],
        give_up: Callable[[Mapping[int, str], AbstractSet[int]], None],
    ) -> None:
        """Wait `patience` seconds for answers.

        `give_up` gets the reason for each node to give up, and the nodes not to reach again.
        """
        self.reachability = Reachability(table.addresses, act)
        self.members: list[int] = []
        self._timers = timers
        self._patience = patience
        self._table = table
        self._give_up = give_up
        self._isolated: set[int] = set()

    @property
    def pending(self) -> bool:
        """Whether answers to probes are waited for."""
        return bool(self.members and self.reachability.awaited)

    def cancel(self) -> None:
        """Form the next round of whoever is to be in it by then."""
        self.members = []

    def forget(self, node: int) -> None:
        """Forget a node that is gone."""
        self.reachability.forget(node)
        if node in self.members:
            self.cancel()

    def find(self, members: list[int], present: AbstractSet[int]) -> str:
        """Return the address for a round, "" where it is not known yet, or there is none.

        Args:
            members: the nodes of the next round.
            present: those of the present one.
        """
        address = self.reachability.find(members)
        if address is None:
            self._await_answers(members, present)
        elif not address:
            reasons = self._unreachable(members, present)
            # The second time it is no cable that was out for a moment.
            again = self._isolated & reasons.keys()
            self._isolated |= reasons.keys()
            self._give_up(reasons, again)
        return address or ""

    def _await_answers(self, members: list[int], present: AbstractSet[int]) -> None:
        """Wait for answers; for those of nodes that are new no longer than they take."""
        if self.members:
            return
        self.members = members
        new = set(members) - present if present else set()
        for seconds, nodes in ((PROBE, new), (self._patience, set(members))):
            self._timers.call_later(seconds, partial(self._on_late, members, nodes, seconds))

    def _on_late(self, members: list[int], nodes: set[int], seconds: float) -> None:
        if self.members is members:
            why = f"it did not answer a probe within {seconds:g} s"
            self._give_up(dict.fromkeys(sorted(self.reachability.awaited & nodes), why), set())

    def _unreachable(self, members: Sequence[int], present: AbstractSet[int]) -> dict[int, str]:
        """Return which nodes to give up where no address is reached by all, and why.

        These are the nodes that do not reach the first one. But if most do not, or if only the
        first is new, it is the first.
        """
        first, others = members[0], len(members) - 1
        fails = self.reachability.unreachable(members)
        new = bool(present) and first not in present
        if 2 * len(fails) > others and (others > 1 or new):
            node, why = next(iter(fails.items()))
            nodes = f"{len(fails)} of {counted(others, 'node')} cannot reach it"
            return {first: f"{nodes}; {self._table.name(node)}: {why}"}
        text = f"cannot reach {self._table.name(first)}, the first node of the round"
        return {node: f"{text}: {why}" for node, why in fails.items()}
