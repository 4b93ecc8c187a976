"""The tests of each node: their units, suspicious nodes, and faults. Pure.

Higher values are better. A node is compared with the median of the others, so that many may differ
as long as most are alike.
"""

from __future__ import annotations

from ...common.records import NamedTuple
from ...common.text import plain
from .runner_matrix import number
from .runner_steps import MeasuredFault

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence
    from typing import TypeAlias

    from .json_types import Value
    from .measurements import Measured

    Place: TypeAlias = tuple[str, str]
    """A test and a part of a node: ("write", "temp")."""


class DeviceTest(NamedTuple):
    """One test.

    Attributes:
        program: the test in `Measure.tests` that makes it.
        unit: the unit of its values.
        fault: the code of the fault that it shows.
        text: the fault, with `value`, `others`, `part` and `evidence`.
        suspect: below this share of the others' median a value is measured again.
        named: below this share it is a fault.
        enough: a value that is good, whatever the others have, or None.
    """

    program: str
    unit: str
    fault: str
    text: str
    suspect: float
    named: float
    enough: float | None = None


FAST_DISK = 500.0
"""MB/s; a faster disk is a cache, or memory, and varies with the load."""

TESTS = {
    "compute": DeviceTest(
        "cpu",
        "MB/s",
        "slow_cores",
        "each of its cores hashes {value} MB/s, others' {others} MB/s",
        0.8,
        0.7,
    ),
    "running": DeviceTest(
        "cpu",
        "%",
        "stopped_cores",
        "its cores ran {value}% of the time, others' {others}%{evidence}",
        0.8,
        0.7,
    ),
    "quota": DeviceTest(
        "cpu",
        "%",
        "stopped_cores",
        "its CPU quota is {value}% of its cores, others' {others}%{evidence}",
        0.95,
        0.7,
    ),
    "memory": DeviceTest(
        "memory",
        "MB/s",
        "slow_memory",
        "each of its cores copies {value} MB/s in memory, others' {others} MB/s",
        0.7,
        0.6,
    ),
    "write": DeviceTest(
        "disk",
        "MB/s",
        "slow_disk",
        "its {part} folder is written at {value} MB/s, others' at {others} MB/s{evidence}",
        0.3,
        0.25,
        FAST_DISK,
    ),
    "read": DeviceTest(
        "disk",
        "MB/s",
        "slow_disk",
        "its {part} folder is read at {value} MB/s, others' at {others} MB/s{evidence}",
        0.3,
        0.25,
        FAST_DISK,
    ),
    "device compute": DeviceTest(
        "device",
        "TFLOP/s",
        "slow_device",
        "{part} computes {value} TFLOP/s, others {others} TFLOP/s{evidence}",
        0.9,
        0.85,
    ),
    "device memory": DeviceTest(
        "device",
        "GB/s",
        "slow_device",
        "{part} copies {value} GB/s in its memory, others {others} GB/s{evidence}",
        0.9,
        0.85,
    ),
    "device copy in": DeviceTest(
        "device",
        "GB/s",
        "slow_device",
        "{part} receives {value} GB/s, others {others} GB/s{evidence}",
        0.7,
        0.6,
    ),
    "device copy out": DeviceTest(
        "device",
        "GB/s",
        "slow_device",
        "{part} sends {value} GB/s, others {others} GB/s{evidence}",
        0.7,
        0.6,
    ),
}

ADVICE = {
    "slow_cores": "check its clock speed: power profile, temperature and BIOS",
    "stopped_cores": "look for the CPU limit of its container, and for other load on it (top)",
    "slow_memory": "look for missing or replaced memory (dmidecode), and for other load",
    "slow_disk": "look for a full or failing disk (df, dmesg), or name another folder",
    "slow_device": "check its clocks, temperature and power limit (nvidia-smi -q)",
}
"""Advice for each fault of a test."""

POOLED = "device"
"""Parts that begin with this word are compared with each other, also on one node."""


class Compared(NamedTuple):
    """A value of a node, and the median of the values that it was compared with."""

    name: str
    place: Place
    value: float
    others: float
    evidence: str

    @property
    def test(self) -> DeviceTest:
        """The test."""
        return TESTS[self.place[0]]

    @property
    def share(self) -> float:
        """The value as a share of the others' median, 1 if it is good anyway."""
        enough = self.test.enough is not None and self.value >= self.test.enough
        return 1.0 if enough or self.others <= 0 else self.value / self.others


def median(values: Collection[float]) -> float:
    """Return the middle value, the mean of two."""
    ordered = sorted(values)
    half = len(ordered) // 2
    return ordered[half] if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) / 2


def known(rows: Iterable[Measured]) -> list[Measured]:
    """Return the rows of known tests: a node may send any."""
    return [row for row in rows if row.test in TESTS]


def compare(found: Mapping[str, Sequence[Measured]]) -> list[Compared]:
    """Return each value that has others to be compared with, the worst first."""
    groups: dict[Place, list[tuple[str, Measured]]] = {}
    for name, rows in found.items():
        for row in known(rows):
            pool = POOLED if row.part.startswith(POOLED) else row.part
            groups.setdefault((row.test, pool), []).append((name, row))
    compared = [one for group in groups.values() for one in _compared(group)]
    return sorted(compared, key=lambda one: one.share)


def _compared(group: Sequence[tuple[str, Measured]]) -> Iterable[Compared]:
    for at, (name, row) in enumerate(group if len(group) > 1 else ()):
        others = [other.value for place, (_, other) in enumerate(group) if place != at]
        yield Compared(name, (row.test, row.part), row.value, median(others), row.evidence)


def suspects(found: Mapping[str, Sequence[Measured]]) -> dict[str, list[Compared]]:
    """Return the values to measure again, by node, the most suspicious node first."""
    by_node: dict[str, list[Compared]] = {}
    for one in compare(found):
        if one.share < one.test.suspect:
            by_node.setdefault(one.name, []).append(one)
    return by_node


def confirmed(
    suspicions: Iterable[Compared],
    again: Sequence[Sequence[Measured]],
    reference: Sequence[Sequence[Measured]],
) -> list[Compared]:
    """Return the values that were low in each measurement, with the best of them.

    Args:
        suspicions: the suspicious values of one node.
        again: the measurements there, one list for each time.
        reference: the measurements on another node in between.
    """
    kept = []
    for one in suspicions:
        own = [row for rows in again for row in rows if (row.test, row.part) == one.place]
        theirs = [row.value for rows in reference for row in rows if _alike(row, one.place)]
        if not own or not theirs:
            continue
        best = max(own, key=lambda row: row.value)
        seen = one._replace(value=best.value, others=median(theirs), evidence=best.evidence)
        if seen.share < seen.test.named:
            kept.append(seen)
    return kept


def _alike(row: Measured, place: Place) -> bool:
    test, part = place
    pooled = part.startswith(POOLED) and row.part.startswith(POOLED)
    return row.test == test and (row.part == part or pooled)


def faults(named: Iterable[Compared]) -> list[MeasuredFault]:
    """Return one fault for each node and kind, with all that shows it."""
    texts: dict[tuple[str, str], list[str]] = {}
    for one in named:
        texts.setdefault((one.test.fault, one.name), []).append(_text(one))
    return [
        MeasuredFault(code, (name,), "; ".join(some), ADVICE[code])
        for (code, name), some in texts.items()
    ]


def _text(one: Compared) -> str:
    return one.test.text.format(
        part=plain(one.place[1]),
        value=number(one.value),
        others=number(one.others),
        evidence=f" ({plain(one.evidence)})" if one.evidence else "",
    )


def as_json(found: Mapping[str, Sequence[Measured]]) -> list[Value]:
    """Return all values."""
    return [
        {
            "node": name,
            "test": row.test,
            "part": plain(row.part),
            "value": round(row.value, 3),
            "unit": TESTS[row.test].unit,
        }
        for name, rows in found.items()
        for row in known(rows)
    ]
