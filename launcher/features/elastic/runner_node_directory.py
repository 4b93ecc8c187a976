"""The nodes of a run as the rounds see them, and their fitness for a round."""

from __future__ import annotations

from ...specs.plan import LOCALHOST
from ..quick_check.runner_before_start import master_candidates

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from collections.abc import Set as AbstractSet
    from typing import Protocol

    from ...head.run.run_node import RunNode
    from ...specs.batch_plan import BatchPlan
    from .runner_round_health import RoundHealth

    class NodeDirectory(Protocol):
        """Describes nodes by their number."""

        def name(self, number: int) -> str:
            """Return the user's name for a node."""
            ...

        def slots(self, number: int) -> int:
            """Return the number of workers of a node."""
            ...

        def fits(self, size: int) -> bool:
            """Return whether a round of this number of workers is allowed."""
            ...

        def may_start(self, members: Sequence[int]) -> bool:
            """Return whether all of these nodes have passed the checks before a round."""
            ...

        def addresses(self, number: int) -> Sequence[str]:
            """Return the addresses at which others may reach a node, the most likely one first."""
            ...


class MasterAddresses:
    """Orders the addresses of a first node by their success at the start of the job."""

    def __init__(self) -> None:
        self._first: RunNode | None = None
        self._verified = self._given = ""
        self._by_address = False

    def on_start(self, first: RunNode, address: str, given: str | None) -> None:
        """Record the first node, and its address that all nodes reached before the start.

        `given` is the address that the user wants for that node, if any.
        """
        self._first, self._verified, self._given = first, address, given or ""
        self._by_address = first.hello is not None and address in first.hello.addresses

    def alone(self, node: RunNode) -> str:
        """Return the address for a round of only this node."""
        return (node is self._first and self._given) or LOCALHOST

    def addresses(self, node: RunNode) -> tuple[str, ...]:
        """Return the addresses at which other nodes may reach this one, the most likely first.

        An address that worked at the start comes first, then addresses of its kind: names that only
        ssh resolves are of no use between nodes.
        """
        assert node.hello is not None
        places = master_candidates(node.node, node.hello)
        usual = node.hello.addresses if self._by_address else ()
        known = sorted(places, key=lambda place: bool(usual) and place not in usual)
        if node is not self._first or self._verified == LOCALHOST:
            return tuple(known)
        if self._given:
            return (self._verified,)
        return tuple(dict.fromkeys([self._verified, *known]))


class RunNodes:
    """The nodes of a run."""

    def __init__(
        self,
        nodes: Sequence[RunNode],
        batches: BatchPlan | None,
        master: MasterAddresses,
        health: RoundHealth,
    ) -> None:
        """Describe nodes of a run, to which more may be added.

        Args:
            nodes: the nodes by number.
            batches: the elastic batch plan that the number of workers must fit, or None.
            master: knows where nodes may be reached.
            health: knows which have passed the checks before a round.
        """
        self._nodes = nodes
        self._batches = batches
        self._master = master
        self._health = health

    def name(self, number: int) -> str:
        """Return the user's name for a node."""
        return self._nodes[number].name

    def slots(self, number: int) -> int:
        """Return the number of workers of a node."""
        return len(self._nodes[number].node.host.slots or ())

    def fits(self, size: int) -> bool:
        """Return whether the elastic plan, if any, has a share for this number of workers."""
        return self._batches is None or not self._batches.misfit(size)

    def may_start(self, members: Sequence[int]) -> bool:
        """Return whether all of these nodes have passed the checks before a round."""
        return self._health.passed(self._nodes[number] for number in members)

    def addresses(self, number: int) -> Sequence[str]:
        """Return the addresses at which others may reach a node, the most likely one first."""
        return self._master.addresses(self._nodes[number])


def select(
    nodes: AbstractSet[int], members: AbstractSet[int], most: int, table: NodeDirectory
) -> list[int]:
    """Return at most `most` of these nodes in order, present members first, in a size that fits."""
    chosen = [*sorted(nodes & members), *sorted(nodes - members)][:most]
    size = sum(map(table.slots, chosen))
    while chosen and not table.fits(size):
        size -= table.slots(chosen.pop())
    return sorted(chosen)
