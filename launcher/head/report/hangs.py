"""The hangs of a job, for its report. Pure."""

from __future__ import annotations

from ...common.text import plain
from ...common.values import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from . import json_types


class Hang(NamedTuple):
    """A time in which a job did nothing.

    Attributes:
        at: when it was found, in seconds on the runner's monotonic clock.
        sentence: which rank is where, and who waits for it.
        ranks: the odd ones; () if none is.
        hosts: where these are, in the same order, or the nodes that have not answered.
        seconds: for how long the job had hung when it was found.
        lasted: seconds after which it went on, None if it did not.
    """

    at: float
    sentence: str
    ranks: tuple[int, ...]
    hosts: tuple[str, ...]
    seconds: float
    lasted: float | None = None


def lines(hangs: Iterable[Hang], headline: str) -> list[str]:
    """Return what to say of hangs beneath the headline of a report, which may name one already."""
    left = [one for one in hangs if one.lasted is None and one.sentence not in headline]
    return [f"  it hung before: {plain(one.sentence)}" for one in left[-1:]]


def fields(hangs: Iterable[Hang], began: float) -> list[json_types.HangJson]:
    """Return them for --report_file."""
    return [
        {
            "after_seconds": round(one.at - began, 3),
            "sentence": one.sentence,
            "ranks": one.ranks,
            "hosts": one.hosts,
            "seconds": round(one.seconds, 3),
            "lasted": None if one.lasted is None else round(one.lasted, 3),
        }
        for one in hangs
    ]
