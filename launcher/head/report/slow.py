"""Ranks, hosts and links that have slowed a job down, for its report. Pure."""

from __future__ import annotations

from ...common.text import plain
from ...common.values import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from . import json_types


class Slow(NamedTuple):
    """One of them.

    Attributes:
        at: when it was found, in seconds on the runner's monotonic clock.
        cause: as in the report.
        ranks: the slow ones, () for a link.
        hosts: where they are, or the ends of the link.
        until: when it was seen no more, None if it was not.
    """

    at: float
    sentence: str
    cause: json_types.SlowCause
    ranks: tuple[int, ...]
    hosts: tuple[str, ...]
    until: float | None = None


def lines(slow: Iterable[Slow]) -> list[str]:
    """Return what to say beneath the headline of a report: what was slow until the end."""
    return [f"  slow: {plain(one.sentence)}" for one in slow if one.until is None]


def causes(slow: Sequence[Slow], host: str, rank: int) -> str:
    """Return why a rank is slow now, as words for a table; "" if it is not."""
    return ",".join(
        one.cause
        for one in slow
        if one.until is None and (rank in one.ranks or (not one.ranks and host in one.hosts))
    )


def fields(slow: Iterable[Slow], began: float) -> list[json_types.SlowJson]:
    """Return them for --report_file."""
    return [
        {
            "after_seconds": round(one.at - began, 3),
            "sentence": one.sentence,
            "cause": one.cause,
            "ranks": one.ranks,
            "hosts": one.hosts,
            "seconds": None if one.until is None else round(one.until - one.at, 3),
        }
        for one in slow
    ]
