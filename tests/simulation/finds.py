"""How many seeds it takes until a world finds an old fault again, as it was measured."""

from __future__ import annotations

import json
import statistics
from typing import TYPE_CHECKING, NamedTuple

from ..support.checkout import CHECKOUT

if TYPE_CHECKING:
    from collections.abc import Mapping

RECORD = CHECKOUT / "tests" / "recorded" / "old_faults.json"
"""What was measured."""

STARTS = 5
"""From so many places seeds are played until one finds a fault."""


class Find(NamedTuple):
    """A seed that has found a fault.

    Attributes:
        after: how many seeds were played from a start until this one, itself included.
        rule: that it broke.
    """

    after: int
    seed: int
    rule: str


class Measured(NamedTuple):
    """What seeds have found of an old fault.

    Attributes:
        date: of the day, in ISO 8601.
        finds: the next start is behind the one before.
        rest: how many seeds behind the last find have found nothing.
        reached: how many of all reach the place of the fault; no others are played.
        seeds: all.
    """

    date: str
    finds: tuple[Find, ...]
    rest: int
    reached: int
    seeds: int

    @property
    def median(self) -> float:
        """How many seeds a start took: the median, infinite unless all have found the fault."""
        if len(self.finds) < STARTS:
            return float("inf")
        return statistics.median(find.after for find in self.finds)


def recorded() -> dict[str, Measured]:
    """Return what was measured, by the fault's id in `tests/bugs.toml`."""
    found = json.loads(RECORD.read_text()) if RECORD.exists() else {}
    return {
        bug: Measured(date, tuple(Find(*one) for one in finds), *counts)
        for bug, (date, finds, *counts) in found.items()
    }


def written(measured: Mapping[str, Measured]) -> str:
    """Return the text of the record: a line for each fault."""
    rows = (f"  {json.dumps(bug)}: {json.dumps(measured[bug])}" for bug in sorted(measured))
    return "{\n" + ",\n".join(rows) + "\n}\n"
