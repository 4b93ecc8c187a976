"""Detects ranks that compute forever while the others wait for them. Pure.

From outside, an endless loop looks like a long computation. So it takes longer than for other hangs
until a line is printed, and nothing else follows.
"""

from __future__ import annotations

from ...common.records import NamedTuple
from ..stacks.runner_culprit import Reason, explain
from ..stacks.runner_frames import parsed
from ..stacks.runner_wait_kinds import Kind, place_of
from .runner_hang_verdict import LONGER, calls, main_frames, received, unfinished

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ..stacks.runner_culprit import WaitExplanation
    from ..stacks.runner_view import RankView

    Views = Mapping[int, RankView]

FOUND = {Reason.BEHIND, Reason.OUTSIDE}
"""Reasons by which awaited ranks are found. torch records nothing more about a rank that holds the
interpreter's lock."""

MAY_BE_A_LOOP = "it may be in an endless loop"

_RECEIVED = 8192
"""Most bytes that a rank without input receives between two looks."""


class _BusyRank(NamedTuple):
    """A rank that computes.

    Attributes:
        since: the time of its first sample in these functions.
        view: its newest view.
    """

    since: float
    view: RankView


class Loops:
    """The ranks that have computed in an unchanged set of functions in all samples."""

    def __init__(self, timeout: float) -> None:
        self._timeout = timeout
        self._seen: dict[int, _BusyRank] = {}

    def sample(self, views: Views, working: Sequence[int], now: float) -> WaitExplanation | None:
        """Add a sample of all ranks' stacks; return a possible hang."""
        computing = {rank: views[rank] for rank in working if _computes(views[rank])}
        unread = {rank: one for rank, one in self._seen.items() if _is_unread(views.get(rank))}
        self._seen = unread | {
            rank: self._next(rank, view, now) for rank, view in computing.items()
        }
        if len(computing) < len(working) or not all(self._is_due(rank, now) for rank in computing):
            return None
        known = explain(
            {**views, **{rank: one._replace(idle=0.0) for rank, one in computing.items()}}
        )
        if known.reason not in FOUND or not {*known.odd} <= computing.keys():
            return None
        waited = min((unfinished(views[rank]) for rank in known.waiting), default=0.0)
        return known._replace(doubt=MAY_BE_A_LOOP) if waited >= LONGER * self._timeout else None

    def skip(self, seconds: float) -> None:
        """Count nothing of the last seconds."""
        self._seen = {
            rank: one._replace(since=one.since + seconds) for rank, one in self._seen.items()
        }

    def _next(self, rank: int, view: RankView, now: float) -> _BusyRank:
        last = self._seen.get(rank)
        stays = last is not None and goes_round(last.view, view)
        return _BusyRank(last.since if last is not None and stays else now, view)

    def _is_due(self, rank: int, now: float) -> bool:
        """Return whether a rank has computed at one place for long, according to the samples."""
        seen = self._seen[rank]
        return min(now - seen.since, seen.view.still) >= (LONGER - 1) * self._timeout


def _is_unread(view: RankView | None) -> bool:
    """Return whether a sample has missed a rank, as on a busy node."""
    return view is not None and not main_frames(view)


def _computes(view: RankView) -> bool:
    """Return whether a rank computes in its own code, and reads, writes and prints nothing.

    So does one that waits for a kernel: CUDA looks again and again whether it is over.
    """
    place = place_of(view)
    return place.kind in {Kind.CODE, Kind.DEVICE} and place.active and place.own


def goes_round(before: RankView, now: RankView) -> bool:
    """Return whether a rank is in equal functions in two views, and has received nothing."""
    there, here = (
        [(one.function, one.file) for one in map(parsed, main_frames(view))]
        for view in (before, now)
    )
    called = calls(before), calls(now)
    return (
        before.pid == now.pid
        and there == here
        and (called[0] == called[1] or not all(called))
        and received(before, now) <= _RECEIVED
    )
