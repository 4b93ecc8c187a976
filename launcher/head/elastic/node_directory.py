"""What the rounds of a run know of its nodes."""

from __future__ import annotations

from ..run import checks

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Protocol

    from ...specs.batch_plan import BatchPlan
    from ..run.run_node import RunNode
    from .master_addresses import MasterAddresses
    from .round_health import RoundHealth

    class NodeDirectory(Protocol):
        """Describes nodes by their number."""

        def name(self, number: int) -> str:
            """Return what the user calls a node."""
            ...

        def slots(self, number: int) -> int:
            """Return how many workers it has."""
            ...

        def fits(self, size: int) -> bool:
            """Return whether a round of so many workers is allowed."""
            ...

        def may_begin(self, members: Sequence[int]) -> bool:
            """Return whether all of these nodes have passed the checks before a round."""
            ...

        def addresses(self, number: int) -> Sequence[str]:
            """Return where others may reach it, the most likely address first."""
            ...


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
            nodes: by their number.
            batches: the elastic batch plan that the number of workers must fit; None for none.
            master: knows where nodes may be reached.
            health: knows which have passed the health command.
        """
        self._nodes = nodes
        self._batches = batches
        self._master = master
        self._health = health

    def name(self, number: int) -> str:
        """Return what the user calls a node."""
        return self._nodes[number].name

    def slots(self, number: int) -> int:
        """Return how many workers it has."""
        return len(self._nodes[number].node.host.slots or ())

    def fits(self, size: int) -> bool:
        """Return whether the elastic plan, if there is one, has a share for so many workers."""
        return not checks.misfit(size, self._batches)

    def may_begin(self, members: Sequence[int]) -> bool:
        """Return whether all of these nodes have passed the health command, if there is one."""
        return self._health.passed(self._nodes[number] for number in members)

    def addresses(self, number: int) -> Sequence[str]:
        """Return where others may reach it, the most likely address first."""
        return self._master.addresses(self._nodes[number])
