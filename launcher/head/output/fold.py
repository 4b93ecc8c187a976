"""Group nodes by equal values, such as their output, and name each group by ranges. Pure."""

from __future__ import annotations

from ...common.wording import counted
from ...resources.ranges import runs_of, spell

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Sequence
    from typing import TypeVar

    Value = TypeVar("Value", bound=Hashable)


def fold(values: Iterable[tuple[str, Value]]) -> dict[Value, list[str]]:
    """Return the names that have each value; groups and names are in the order of the input."""
    groups: dict[Value, list[str]] = {}
    for name, value in values:
        groups.setdefault(value, []).append(name)
    return groups


def ranges(names: Sequence[str]) -> str:
    """Return all names in their order, consecutive ones joined: `n[1-3], n7`."""
    return ", ".join(spell(run) for run in runs_of(names))


def heading(names: Sequence[str]) -> str:
    """Return the names and, if there are several, their number: `n[1-3], n7 (4 nodes)`."""
    return ranges(names) if len(names) == 1 else f"{ranges(names)} ({counted(len(names), 'node')})"
