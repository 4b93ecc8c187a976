"""Rounds of disjoint pairs of nodes, which are measured side by side. Pure."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import TypeAlias

    Pair: TypeAlias = tuple[str, str]

ALL = 16
"""The largest number of nodes with measurements of every pair."""

SOME = 9
"""Number of rounds with more nodes; each node is then measured with this many others."""


def rounds(names: Sequence[str]) -> list[list[Pair]]:
    """Return rounds of pairs; no node is in two pairs of a round, and no pair is measured twice.

    The first node of a pair is the one that comes first in `names`.

    As in a tournament, one player stays and the others go round (the circle method). With more than
        `ALL` nodes, only `SOME` rounds are taken, spread evenly.
    """
    players: list[str | None] = [*names, *([None] if len(names) % 2 else [])]
    turns = len(players) - 1 if len(names) > 1 else 0
    count = turns if len(names) <= ALL else SOME
    order = {name: at for at, name in enumerate(names)}
    return [
        [(min(pair, key=order.__getitem__), max(pair, key=order.__getitem__)) for pair in pairs]
        for pairs in (_round(players, at * turns // count) for at in range(count))
    ]


def _round(players: Sequence[str | None], turn: int) -> list[Pair]:
    """Return one round; the partner of the player None sits out."""
    first, rest = players[:1], players[1:]
    seats = [*first, *rest[turn:], *rest[:turn]]
    half = len(seats) // 2
    facing = zip(seats[:half], reversed(seats[half:]), strict=True)
    return [(one, other) for one, other in facing if one is not None and other is not None]
