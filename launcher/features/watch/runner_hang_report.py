"""The hangs of a job, for its report. Pure."""

from __future__ import annotations

from ...common.records import NamedTuple
from ...common.text import plain
from ...head.report.report import of_kind

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypedDict

    from ...head.report.json_types import HangJson
    from ...head.report.report import JobReport

    class HangsJson(TypedDict):
        """The section of the report.

        Attributes:
            hangs: the hangs in the order of time; only if there were any.
        """

        hangs: list[HangJson]


class Hang(NamedTuple):
    """A time in which a job made no progress.

    Attributes:
        at: the time of detection, in seconds on the runner's monotonic clock.
        sentence: the odd rank's place, and the ranks that wait for it.
        ranks: the odd ranks; () if none stands out.
        hosts: the hosts of these ranks, in order, or the nodes that did not answer.
        seconds: the duration of the hang before its detection.
        lasted: the whole duration in seconds; None if the job did not continue.
    """

    at: float
    sentence: str
    ranks: tuple[int, ...]
    hosts: tuple[str, ...]
    seconds: float
    lasted: float | None = None


def lines(report: JobReport, headline: str) -> list[str]:
    """Return lines on hangs for below a headline, which may name one; it is "" in a running job."""
    left = [one for one in of_kind(report.found, Hang) if one.lasted is None]
    if not headline:
        return [f"  it hangs: {one.sentence}" for one in left]
    others = [one for one in left if one.sentence not in headline]
    return [f"  it hung before: {plain(one.sentence)}" for one in others[-1:]]


def fields(report: JobReport) -> HangsJson:
    """Return the hangs for --report_file."""
    return {"hangs": [_hang(one, report.began) for one in of_kind(report.found, Hang)]}


def _hang(one: Hang, began: float) -> HangJson:
    return {
        "after_seconds": round(one.at - began, 3),
        "sentence": one.sentence,
        "ranks": one.ranks,
        "hosts": one.hosts,
        "seconds": round(one.seconds, 3),
        "lasted": None if one.lasted is None else round(one.lasted, 3),
    }
