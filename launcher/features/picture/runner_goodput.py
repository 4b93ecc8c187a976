"""The share of its time that a job has worked, and the causes that cost the rest. Pure."""

from __future__ import annotations

from itertools import pairwise

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from .runner_timeline import TimelineMark, WorkerSpan

GOOD = "good"


def seconds_by_cause(
    spans: Iterable[WorkerSpan], marks: Iterable[TimelineMark], world_size: int, ended: float
) -> dict[str, float]:
    """Return the seconds in which all ranks ran and none hung (`good`), and those lost by cause.

    The causes: `start` until all ranks run for the first time, `restart` from the first end in a
    round until all run again, `end` from the last such end on, and `hang`.

    Args:
        spans: the lives of workers.
        marks: the events, for the hangs among them.
        world_size: the number of ranks of a whole round.
        ended: the end of the job, in seconds from its start.
    """
    hangs = [
        (one.at, one.until if one.until is not None else ended)
        for one in marks
        if one.kind == "hang"
    ]
    whole = _whole(spans, world_size, ended)
    if not whole:
        return {"start": ended} if ended else {}
    hung = sum(_overlap(one, two) for one in whole for two in hangs)
    good = sum(end - begin for begin, end in whole) - hung
    found = {
        GOOD: good,
        "start": whole[0][0],
        "restart": sum(later[0] - one[1] for one, later in pairwise(whole)),
        "hang": hung,
        "end": ended - whole[-1][1],
    }
    return {cause: round(seconds, 3) for cause, seconds in found.items() if seconds > 0}


def _whole(spans: Iterable[WorkerSpan], size: int, ended: float) -> Sequence[tuple[float, float]]:
    """Return the times in which at least this number of ranks ran."""
    changes: list[tuple[float, int]] = []
    for one in spans:
        changes += [(one.began, 1), (one.ended if one.ended is not None else ended, -1)]
    found: list[tuple[float, float]] = []
    running, since = 0, None
    for at, change in sorted(changes):
        running += change
        if since is None and running >= size > 0:
            since = at
        elif since is not None and running < size:
            found.append((since, at))
            since = None
    return found


def _overlap(one: tuple[float, float], other: tuple[float, float]) -> float:
    return max(0.0, min(one[1], other[1]) - max(one[0], other[0]))
