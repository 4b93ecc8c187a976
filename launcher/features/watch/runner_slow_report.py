"""Ranks, hosts and links that slowed a job down, for its report. Pure."""

from __future__ import annotations

from ...common.records import NamedTuple
from ...common.text import plain
from ...head.report.report import of_kind

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import TypedDict

    from ...head.report.json_types import SlowCause, SlowJson
    from ...head.report.report import JobReport

    class SlowSectionJson(TypedDict):
        """The section of the report.

        Attributes:
            slow: findings of --warn_slow; only if there are any.
        """

        slow: list[SlowJson]


class Slow(NamedTuple):
    """A rank, host or link that slowed a job down.

    Attributes:
        at: the time of detection, in seconds on the runner's monotonic clock.
        cause: the cause, as in the report.
        ranks: the slow ranks; () for a link.
        hosts: the hosts of the ranks, or the ends of the link.
        until: the end of the slowness; None if it lasts.
    """

    at: float
    sentence: str
    cause: SlowCause
    ranks: tuple[int, ...]
    hosts: tuple[str, ...]
    until: float | None = None


def lines(report: JobReport, _headline: str) -> list[str]:
    """Return lines on slowness that lasted to the end, or lasts now in a running job."""
    left = [one for one in of_kind(report.found, Slow) if one.until is None]
    return [f"  slow: {plain(one.sentence)}" for one in left]


def causes(slow: Sequence[Slow], host: str, rank: int) -> str:
    """Return why a rank is slow now, in words for a table; "" if it is not."""
    return ",".join(
        one.cause
        for one in slow
        if one.until is None and (rank in one.ranks or (not one.ranks and host in one.hosts))
    )


def fields(report: JobReport) -> SlowSectionJson:
    """Return the findings of slowness for --report_file."""
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
