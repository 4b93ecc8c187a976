"""A hang that was found: its report, the reaction, and whether the job continues."""

from __future__ import annotations

from ...common.text import plain
from ...head.fleet.hosts import some_of
from ...head.run.events import AlarmOver
from ..stacks.runner_rank_words import ranks_of
from ..stacks.runner_wait_kinds import place_of
from .runner_endless_loops import MAY_BE_A_LOOP, goes_round
from .runner_hang_report import Hang
from .runner_hang_verdict import has_moved, stood

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping

    from ..stacks.runner_culprit import WaitExplanation
    from ..stacks.runner_view import RankView
    from .runner_hang import HangReport
    from .runner_idle_times import RankIdleTimes


KIND = "hang"
"""The kind of the events about a hang."""

STOPPED = frozenset("TtD")
"""States of a process in which it does nothing, and may end (proc(5))."""

AGAIN = 0.1
"""Part of the timeout between two samples of ranks that hung and are active."""


class HangIncident:
    """One hang, from its detection on.

    Attributes:
        known: the explanation: which ranks wait for which.
        places: the places of the odd ranks, or of all ranks if none was odd.
    """

    def __init__(
        self,
        report: HangReport,
        known: WaitExplanation,
        views: Mapping[int, RankView],
        ended: Mapping[int, str],
        now: float,
    ) -> None:
        """Report the hang, and take the action that the user has chosen.

        Args:
            report: the means of reporting.
            known: the explanation: which ranks wait for which.
            views: all ranks.
            ended: ranks that ended with code 0, with their hosts.
            now: the time on the runner's clock.
        """
        self._report = report
        self.known, self._views = known, views
        self.places = places_of(known, views)
        self._hang = hang_of(known, views, ended, now)
        self._then = "report" if known.doubt else report.policy.on_hang
        self._looked = now
        self._busy: dict[int, float] = {}
        report.found.append(self._hang)
        self._stands = True
        if self._then == "report":
            self._react()
            report.take_stacks(self._on_saved, save=True)
        else:
            report.take_stacks(self._on_last, save=True)

    def _react(self) -> None:
        self._report.act(KIND, self._then, self._hang.sentence)

    def _on_saved(self, views: Mapping[int, RankView]) -> None:
        """Print the path of the stacks, or a command that shows them."""
        if not self._show_folders(views):
            job = self._report.job_id
            self._report.log(f"to see where all ranks are: dsrun-job stacks {job}", "info")

    def _show_folders(self, views: Mapping[int, RankView]) -> bool:
        """Print where the stacks were written; return whether they were."""
        folders: dict[str, list[str]] = {}
        for view in views.values():
            if view.saved and view.host not in folders.setdefault(view.saved, []):
                folders[view.saved].append(view.host)
        at = ", ".join(f"{plain(name)} on {some_of(hosts)}" for name, hosts in folders.items())
        if at:
            self._report.log(f"the stacks of all ranks: {at}", "info")
        return bool(at)

    def _on_last(self, views: Mapping[int, RankView]) -> None:
        """Act, now that there is nothing more to see."""
        if self._stands:
            self._show_folders(views)
            self._react()

    def is_to_see(self, idle_times: RankIdleTimes, now: float) -> bool:
        """Return whether to sample the stacks, because a rank that hung is active."""
        rest = AGAIN * self._report.policy.hang_timeout
        first = self._looked == self._hang.at
        return bool(self._moved(idle_times)) and (first or now >= self._looked + rest)

    def _moved(self, idle_times: RankIdleTimes) -> list[int]:
        """Return the odd ranks, or all ranks if none is odd, that were active since the hang."""
        running = [rank for rank in self._hang.ranks if rank in idle_times.ranks] or [
            *idle_times.ranks
        ]
        return [rank for rank in running if idle_times.ranks[rank].since > self._hang.at]

    def goes_on(self, views: Mapping[int, RankView], idle_times: RankIdleTimes, now: float) -> bool:
        """Return whether a rank that hung has moved, or is active all the time.

        Occasional activity, such as a timer in another thread, does not count.
        """
        self._looked = now
        moved = [
            rank for rank in self._moved(idle_times) if self._is_over(rank, views, idle_times, now)
        ]
        if not moved:
            return False
        who = ranks_of(moved) if {*moved} <= {*self._hang.ranks} else "the job"
        self._tell(f"{who} resumed after {self.over(now):.0f} s")
        return True

    def _is_over(
        self, rank: int, views: Mapping[int, RankView], idle_times: RankIdleTimes, now: float
    ) -> bool:
        before, view = self._views.get(rank), views.get(rank)
        if before is None or view is None:
            return True
        if self.known.doubt == MAY_BE_A_LOOP:
            return not goes_round(before, view)
        if is_elsewhere(before, view):
            return True
        timeout = self._report.policy.hang_timeout
        if idle_times.idle(rank, now) > timeout / 4:
            self._busy.pop(rank, None)
        return now - self._busy.setdefault(rank, now) >= timeout / 2

    def _tell(self, sentence: str) -> None:
        self._report.log(sentence, "warning")
        self._report.tell(AlarmOver(KIND, sentence))

    def over(self, now: float) -> float:
        """Record that the job has stopped hanging; return the seconds for which it hung."""
        self._stands = False
        found, lasted = self._report.found, now - self._hang.at + self._hang.seconds
        found[found.index(self._hang)] = self._hang._replace(lasted=lasted)
        return lasted


def is_elsewhere(before: RankView, now: RankView) -> bool:
    """Return whether a rank that hung has moved, as far as its new view shows."""
    there, here = (one.worker is not None and one.worker.state in STOPPED for one in (before, now))
    answers = bool(before.problem and not now.problem)
    return answers or (there and not here) or has_moved(before, now)


def places_of(known: WaitExplanation, views: Mapping[int, RankView]) -> Hashable:
    """Return the places of the odd ranks, or of all ranks if none is odd."""
    return tuple((rank, place_of(views[rank])[:3]) for rank in known.odd or views)


def hang_of(
    known: WaitExplanation, views: Mapping[int, RankView], ended: Mapping[int, str], now: float
) -> Hang:
    """Return a hang as the report has it, given who waits for whom; see `HangIncident`."""
    odd, sentence = known.odd, plain(known.sentence)
    hosts = {rank: view.host for rank, view in views.items()}
    still = known.waiting if known.doubt == MAY_BE_A_LOOP else odd
    stands = [stood(views[rank]) for rank in still] or [max(map(stood, views.values()))]
    if known.waiting and ended and not odd:
        odd, hosts = tuple(sorted(ended)), {**ended}
        has = "have" if len(odd) > 1 else "has"
        sentence = f"{ranks_of(odd)} {has} already exited with code 0; {sentence}"
    seconds = min(stands)
    doubt = f"; {known.doubt}" if known.doubt else ""
    text = f"no progress for {seconds:.0f} s: {sentence}{doubt}"
    return Hang(now, text, odd, tuple(hosts[rank] for rank in odd), seconds)
