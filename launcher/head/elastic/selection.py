"""Which nodes are the next round. Pure."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Set as AbstractSet

    from .node_directory import NodeDirectory


def select(
    nodes: AbstractSet[int], members: AbstractSet[int], most: int, table: NodeDirectory
) -> list[int]:
    """Return at most `most` of these nodes in order, present members first, in a size that fits."""
    chosen = [*sorted(nodes & members), *sorted(nodes - members)][:most]
    size = sum(map(table.slots, chosen))
    while chosen and not table.fits(size):
        size -= table.slots(chosen.pop())
    return sorted(chosen)
