"""The times of stack samples of all ranks, and the judgement whether they show a hang. Pure.

The first sample is taken when some rank has been inactive for half of the timeout, and judged when
a rank has been inactive for the whole timeout. If a rank turns out to work, the next judgement
follows when that rank has been inactive for the timeout, or after half a timeout: a rank may wait
and use the CPU.
"""

from __future__ import annotations

from math import inf

from ...common.records import NamedTuple
from .runner_endless_loops import Loops
from .runner_hang_verdict import Stay, has_moved, judge

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..stacks.runner_culprit import WaitExplanation
    from ..stacks.runner_view import RankView
    from .runner_idle_times import RankIdleTimes

KEPT = 3
"""Samples that are kept."""


class Look(NamedTuple):
    """All ranks at one time on the runner's clock."""

    at: float
    views: Mapping[int, RankView]


class _Seen(NamedTuple):
    """A rank in its newest sample.

    Attributes:
        at: the time of the sample.
        first: the time of the first sample at this place.
        elsewhere: the time of the last sample elsewhere; minus infinity for never.
    """

    view: RankView
    at: float
    first: float
    elsewhere: float = -inf


class StackSampling:
    """The samples from the first one until the job certainly works."""

    def __init__(self, timeout: float) -> None:
        """Report ranks that stand still for this number of seconds."""
        self._timeout = timeout
        self.reset()

    def reset(self) -> None:
        """Forget all samples: the job works."""
        self._looks: list[Look] = []
        self._seen: dict[int, _Seen] = {}
        self._judged: float | None = None
        self._working: tuple[int, ...] = ()
        self._again = 0.0
        self._loops = Loops(self._timeout)

    def skip(self, seconds: float) -> None:
        """Count nothing of the last seconds."""
        self._looks = [one._replace(at=one.at + seconds) for one in self._looks]
        self._seen = {
            rank: _Seen(one.view, *(at + seconds for at in one[1:]))
            for rank, one in self._seen.items()
        }
        self._judged = self._judged + seconds if self._judged is not None else None
        self._loops.skip(seconds)

    def due(self, idle_times: RankIdleTimes, idle: float, now: float) -> float:
        """Return the seconds until the next stack sample, as far as known now.

        Args:
            idle_times: the idle times of the ranks.
            idle: the seconds for which some rank has done nothing, or a node said nothing.
            now: the time.
        """
        longest = max(idle, idle_times.still(now))
        if longest < self._timeout / 2:
            self.reset()
        if not self._looks:
            return self._timeout / 2 - longest
        if self._judged is None:
            return max(self._timeout - longest, self._looks[-1].at + self._timeout / 4 - now)
        again = self._judged + (self._again or self._timeout / 2)
        if self._working:
            idle = idle_times.idle_in_turn(self._working, now)
        over = now + self._timeout - idle
        return (min(again, over) if over > self._judged else again) - now

    def sample(self, views: Mapping[int, RankView], now: float) -> WaitExplanation | None:
        """Add a sample of all ranks' stacks; return the explanation if the job hangs, or may hang.

        The `idle` of each is the time for which it has done nothing.
        """
        self._looks = [*self._looks, Look(now, views)][-KEPT:]
        stays = self._stays(views, now)
        if len(self._looks) == 1:
            return None
        long_ago = [one for one in self._looks if one.at <= now - self._timeout / 4]
        before = (long_ago or self._looks)[-1 if long_ago else 0]
        found = judge(before.views, views, self._timeout, now - before.at, stays)
        self._judged, self._working, self._again = now, found.working, found.again
        return found.hang or self._loops.sample(views, found.working, now)

    def _stays(self, views: Mapping[int, RankView], now: float) -> dict[int, Stay]:
        """Return for how long each rank has been where it is."""
        for rank, view in views.items():
            last = self._seen.get(rank, _Seen(view, now, now))
            if last.view.pid != view.pid or has_moved(last.view, view):
                self._seen[rank] = _Seen(view, now, now, last.at)
            else:
                self._seen[rank] = last._replace(view=view, at=now)
        seen = {rank: self._seen[rank] for rank in views}
        return {rank: Stay(now - one.first, now - one.elsewhere) for rank, one in seen.items()}
