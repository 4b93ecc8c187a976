"""Ranks, hosts and links that have slowed a job down, for its report. Pure."""

from __future__ import annotations

from ...common.text import plain
from ...common.values import NamedTuple
from .report import of_kind

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import TypedDict

    from .json_types import SlowCause, SlowJson
    from .report import JobReport

    class SlowSectionJson(TypedDict):
        """The section of the report.

        Attributes:
            slow: what has slowed the job down, if --warn_slow was given; only if anything has.
        """

        slow: list[SlowJson]


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
    cause: SlowCause
    ranks: tuple[int, ...]
    hosts: tuple[str, ...]
    until: float | None = None


def lines(report: JobReport, _headline: str) -> list[str]:
    """Return lines on what was slow until the end, or is slow while the job runs."""
    left = [one for one in of_kind(report.found, Slow) if one.until is None]
    return [f"  slow: {plain(one.sentence)}" for one in left]


def causes(slow: Sequence[Slow], host: str, rank: int) -> str:
    """Return why a rank is slow now, as words for a table; "" if it is not."""
    return ",".join(
        one.cause
        for one in slow
        if one.until is None and (rank in one.ranks or (not one.ranks and host in one.hosts))
    )


def fields(report: JobReport) -> SlowSectionJson:
    """Return what has slowed the job down for --report_file."""
    return {"slow": [_slow(one, report.began) for one in of_kind(report.found, Slow)]}


def _slow(one: Slow, began: float) -> SlowJson:
    return {
        "after_seconds": round(one.at - began, 3),
        "sentence": one.sentence,
        "cause": one.cause,
        "ranks": one.ranks,
        "hosts": one.hosts,
        "seconds": None if one.until is None else round(one.until - one.at, 3),
    }
