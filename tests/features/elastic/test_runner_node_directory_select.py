"""Which nodes are the next round."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from dsrun.launcher.features.elastic.runner_node_directory import select

if TYPE_CHECKING:
    from collections.abc import Sequence


class Table:
    """Nodes with as many slots as their number, in rounds of an even size or of any."""

    def __init__(self, *, even: bool = False) -> None:
        self._even = even

    def name(self, number: int) -> str:
        return f"n{number}"

    def slots(self, number: int) -> int:
        return number

    def fits(self, size: int) -> bool:
        return not self._even or size % 2 == 0

    def may_start(self, _members: Sequence[int]) -> bool:
        return True

    def addresses(self, number: int) -> Sequence[str]:
        return (f"a{number}",)


@pytest.mark.parametrize(
    ("nodes", "members", "most", "chosen"),
    [
        ({3, 1, 2}, set(), 9, [1, 2, 3]),
        ({3, 1, 2}, {3}, 2, [1, 3]),
        ({3, 1, 2}, {3, 2, 8}, 2, [2, 3]),
        (set(), {1}, 2, []),
    ],
)
def test_present_members_come_first(
    nodes: set[int], members: set[int], most: int, chosen: list[int]
) -> None:
    assert select(nodes, members, most, Table()) == chosen


@pytest.mark.parametrize(
    ("nodes", "members", "chosen"),
    [
        ({1, 2, 3}, set(), [1, 2, 3]),
        ({2, 3}, set(), [2]),
        ({2, 3}, {3}, []),
        ({2, 3, 5}, {3, 5}, [2, 3, 5]),
    ],
)
def test_the_last_ones_are_left_out_until_the_size_fits(
    nodes: set[int], members: set[int], chosen: list[int]
) -> None:
    assert select(nodes, members, 9, Table(even=True)) == chosen
