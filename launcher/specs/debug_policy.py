"""Which workers start under a debugger."""

from __future__ import annotations

from ..common.values import NamedTuple


class DebugPolicy(NamedTuple):
    """Which workers start under a debugger.

    Attributes:
        ranks: theirs; none for all ranks.
        wait: they wait for an editor before the first line of their program.
        file: the launch.json that gets a configuration for each of them, "" for none.
    """

    ranks: frozenset[int] = frozenset()
    wait: bool = True
    file: str = ""

    def has(self, rank: int) -> bool:
        """Return whether this rank is one of them."""
        return not self.ranks or rank in self.ranks
