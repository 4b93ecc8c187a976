"""Whether a job hangs, from two looks at all its ranks with some time between. Pure.

A job hangs if none of its ranks does anything, and there is a reason for it besides that: ranks
wait for another one, or a process cannot run, or waits for what nobody will do. A rank that waits
for others may use the CPU for that, or print something in another thread: its stack shows it.
"""

from __future__ import annotations

import re

from ...common.values import NamedTuple
from ..stacks.culprit import Reason, explain
from ..stacks.places import COMPLETED, FOR_OTHERS, PERHAPS_FOR_OTHERS, Kind, place_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..stacks.culprit import Explanation
    from ..stacks.view import RankView

    Views = Mapping[int, RankView]

ALONE = {Reason.STOPPED, Reason.BLOCKED, Reason.CHILD, Reason.MISMATCH, Reason.BEHIND}
"""Reasons that are enough, whether or not other ranks are known to wait."""

WITHIN = {Kind.LOCK, Kind.NATIVE, Kind.THREAD, Kind.QUEUE, Kind.GIL}
"""Waits that only the rank's own processes can end, none of which does anything."""

SERVING = re.compile(r"\b(serve_forever|run_forever|wait_for_termination|accept) \(")
"""Functions that wait for somebody outside of the job for any time."""


class Judgement(NamedTuple):
    """What two looks have shown.

    Attributes:
        hang: who waits for whom, None if the job does not hang.
        working: the ranks that speak against a hang because they do something.
    """

    hang: Explanation | None
    working: tuple[int, ...] = ()


def judge(before: Views, now: Views, timeout: float) -> Judgement:
    """Return whether a job has hung for so many seconds.

    Args:
        before: the ranks at an earlier time.
        now: the ranks; the `idle` of each is the time for which it has done nothing.
        timeout: seconds.
    """
    working = tuple(
        rank for rank, view in sorted(now.items()) if not _stands(before.get(rank), view, timeout)
    )
    if working or not now or not _is_sure(now, timeout):
        return Judgement(None, working)
    known = explain({rank: view._replace(idle=stood(view)) for rank, view in now.items()})
    return Judgement(known if _is_hang(known, before, now) else None)


def stood(view: RankView) -> float:
    """Return for how long a rank has got nowhere, as one that uses the CPU may have."""
    ages = [one.age for one in view.collectives if one.state != COMPLETED]
    return max(view.idle, min(ages, default=0.0))


def _stands(before: RankView | None, now: RankView, timeout: float) -> bool:
    """Return whether a rank has got nowhere between the two looks."""
    if before is None or before.pid != now.pid or _has_moved(before, now):
        return False
    return now.idle >= timeout or _waits(now)


def _is_sure(now: Views, timeout: float) -> bool:
    """Return whether some rank does nothing, or all are in a collective, as is recorded.

    Ranks that wait for each other most of the time may be found in the same line twice.
    """
    return any(one.idle >= timeout for one in now.values()) or all(map(_unfinished, now.values()))


def _has_moved(before: RankView, now: RankView) -> bool:
    """Return whether its main thread, or its collectives, are not where they were."""
    there, here = _main(before), _main(now)
    return bool(there and here and there != here) or _calls(before) != _calls(now)


def _main(view: RankView) -> tuple[str, ...]:
    return next((one.frames for one in view.threads_of(view.pid) if one.main), ())


def _calls(view: RankView) -> dict[str, tuple[int, str]]:
    """Return the newest collective of each group, and how far it is."""
    newest = sorted(view.collectives, key=lambda one: one.sequence)
    return {one.group: (one.sequence, one.state) for one in newest}


def _waits(view: RankView) -> bool:
    """Return whether a rank waits for others though it uses the CPU, as with NCCL."""
    kind = place_of(view).kind
    return kind in FOR_OTHERS or (kind in {*PERHAPS_FOR_OTHERS, Kind.CODE} and _unfinished(view))


def _unfinished(view: RankView) -> bool:
    return any(one.state != COMPLETED for one in view.collectives)


def _is_hang(known: Explanation, before: Views, views: Views) -> bool:
    """Return whether there is a reason why ranks that do nothing will not go on."""
    if any(_awaits_somebody_else(views[rank]) for rank in known.odd or views):
        return False
    if known.reason in ALONE or (known.waiting and known.reason is not Reason.NOBODY):
        return True
    kinds = {rank: place_of(view).kind for rank, view in views.items()}
    for_others = len(views) > 1 and {*kinds.values()} <= FOR_OTHERS | PERHAPS_FOR_OTHERS
    within = (rank for rank, kind in kinds.items() if kind in WITHIN)
    stays = any(place_of(before[rank]).kind is kinds[rank] for rank in within)
    return for_others or stays or known.reason is Reason.DIFFERENT


def _awaits_somebody_else(view: RankView) -> bool:
    """Return whether a rank waits for a person, a debugger or a client."""
    frames = (frame for thread in view.threads for frame in thread.frames)
    return place_of(view).kind is Kind.DEBUGGER or any(map(SERVING.search, frames))
