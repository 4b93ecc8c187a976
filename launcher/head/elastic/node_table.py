"""What the rounds of a run know of its nodes."""

from __future__ import annotations

from ..run import checks

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Protocol

    from ..run.run import Run
    from .master_addresses import MasterAddresses

    class NodeTable(Protocol):
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

        def addresses(self, number: int) -> Sequence[str]:
            """Return where others may reach it, the most likely address first."""
            ...


class RunNodes:
    """The nodes of a run."""

    def __init__(self, run: Run, master: MasterAddresses) -> None:
        self._run = run
        self._master = master

    def name(self, number: int) -> str:
        """Return what the user calls a node."""
        return self._run.nodes[number].name

    def slots(self, number: int) -> int:
        """Return how many workers it has."""
        return len(self._run.nodes[number].node.host.slots or ())

    def fits(self, size: int) -> bool:
        """Return whether the elastic plan, if there is one, has a share for so many workers."""
        return not checks.misfit(size, self._run.spec.batches)

    def addresses(self, number: int) -> Sequence[str]:
        """Return where others may reach it, the most likely address first."""
        return self._master.addresses(self._run.nodes[number])
