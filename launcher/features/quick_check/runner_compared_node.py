"""A node as the quick check sees it, and how values of several nodes are compared. Pure."""

from __future__ import annotations

from ...common.records import NamedTuple
from ...common.text import plain
from ...head.fleet.hosts import some_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ...control.facts import Facts
    from ...specs.host import Slot

LONGEST = 60
"""Characters of a value that are shown."""


class ComparedNode(NamedTuple):
    """One node.

    Attributes:
        name: the host's name, as the user wrote it.
        workers: the number of workers there, 0 if unknown.
        slots: the devices that they use; None for all.
        accelerator: the kind of its devices, "" if unknown.
        ahead: how many seconds its wall clock is ahead of this machine's, at least and at most;
            None if unknown.
        needs_torch: whether its workers will probably import torch.
    """

    name: str
    facts: Facts
    workers: int = 0
    slots: tuple[Slot, ...] | None = None
    accelerator: str = ""
    ahead: tuple[float, float] | None = None
    needs_torch: bool = False

    @property
    def has_gpus(self) -> bool:
        """True if it has devices with their own libraries and driver."""
        return bool(self.facts.devices) or self.accelerator not in {"", "cpu"}


class Outlier(NamedTuple):
    """Nodes that differ from most.

    Attributes:
        nodes: those that have this value.
        value: theirs.
        common: the value that most nodes have, or as many as have another and the first of them.
        holders: the nodes that have it.
    """

    nodes: list[str]
    value: str
    common: str
    holders: list[str]

    def words(self, what: str) -> str:
        """Return e.g. `torch 2.3.1, but 2.4.0 on n1 and n2`."""
        return f"{what} {shown(self.value)}, but {shown(self.common)} on {some_of(self.holders)}"


def python_of(facts: Facts) -> str:
    """Return the path of the workers' Python, as a person can paste it into a shell."""
    from shlex import quote

    return quote(plain(facts.python_path))


def outliers(
    compared: Sequence[ComparedNode], value: Callable[[ComparedNode], str | None]
) -> list[Outlier]:
    """Return the nodes whose value is not the one that most have, by value.

    Nodes without a value (None) are left out.
    """
    groups: dict[str, list[str]] = {}
    for one in compared:
        its = value(one)
        if its is not None:
            groups.setdefault(its, []).append(one.name)
    if len(groups) < 2:
        return []
    common = max(groups, key=lambda its: len(groups[its]))
    holders = groups.pop(common)
    return [Outlier(nodes, its, common, holders) for its, nodes in groups.items()]


def typical(values: Sequence[float]) -> float:
    """Return the upper median: what at least half of the nodes have at most."""
    return sorted(values)[len(values) // 2]


def shown(value: str) -> str:
    """Return a value as it is shown: not empty, and not too long."""
    if not value:
        return "none"
    return value if len(value) <= LONGEST else f"{value[: LONGEST - 3]}..."


def size(count: float) -> str:
    """Return a number of bytes in words, as in `1.5 GiB`."""
    units = ("bytes", "KiB", "MiB", "GiB", "TiB")
    at = 0
    while count >= 1024 and at < len(units) - 1:
        count, at = count / 1024, at + 1
    return f"{count:.3g} {units[at]}" if count < 1000 else f"{count:.0f} {units[at]}"
