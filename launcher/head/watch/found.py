"""A hang that was found: what is said of it, what follows, and whether the job goes on."""

from __future__ import annotations

from ...common.text import plain
from ..fleet.hosts import some_of
from ..report.hangs import Hang
from ..run.events import AlarmOver
from ..stacks.collect import collect
from ..stacks.words import ranks_of
from .judge import stood
from .reaction import Reaction

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..run.run import Run
    from ..stacks.culprit import Explanation
    from ..stacks.view import RankView
    from .tracks import Tracks

KIND = "hang"
"""Of the events that tell of it."""


class Found:
    """One hang, from when it was found."""

    def __init__(
        self,
        run: Run,
        known: Explanation,
        views: Mapping[int, RankView],
        ended: Mapping[int, str],
        now: float,
    ) -> None:
        """Tell of it, and do what the user has chosen.

        Args:
            run: the job.
            known: who waits for whom.
            views: all ranks.
            ended: the ranks that have ended with code 0, with their hosts.
            now: the time on the runner's clock.
        """
        self._run = run
        self._hang = hang_of(known, views, ended, now)
        run.record.hangs.append(self._hang)
        self._stands = True
        if run.spec.watch.on_hang == "report":
            self._react()
            collect(run, self._on_saved, save=True)
        else:
            collect(run, self._on_last, save=True)

    def _react(self) -> None:
        Reaction(self._run).react(KIND, self._run.spec.watch.on_hang, self._hang.sentence)

    def _on_saved(self, views: Mapping[int, RankView]) -> None:
        """Say where the stacks are, or how to see them."""
        if not self._show_folders(views):
            job = self._run.spec.job_id
            self._run.log(f"where all ranks are: dsrun-job stacks {job}")

    def _show_folders(self, views: Mapping[int, RankView]) -> bool:
        """Say where the stacks have been written; return whether they have."""
        folders: dict[str, list[str]] = {}
        for view in views.values():
            if view.saved and view.host not in folders.setdefault(view.saved, []):
                folders[view.saved].append(view.host)
        at = ", ".join(f"{plain(name)} on {some_of(hosts)}" for name, hosts in folders.items())
        if at:
            self._run.log(f"the stacks of all ranks: {at}")
        return bool(at)

    def _on_last(self, views: Mapping[int, RankView]) -> None:
        """Act, now that there is nothing more to see."""
        if self._stands:
            self._show_folders(views)
            self._react()

    def goes_on(self, tracks: Tracks, now: float) -> bool:
        """Return whether one of the odd ranks, or any if none is odd, has done something since."""
        running = [rank for rank in self._hang.ranks if rank in tracks.ranks] or [*tracks.ranks]
        moved = [rank for rank in running if tracks.ranks[rank].since > self._hang.at]
        if not moved:
            return False
        who = ranks_of(moved) if {*moved} <= {*self._hang.ranks} else "the job"
        verb = "go" if who.startswith("ranks") else "goes"
        self._tell(f"{who} {verb} on after {self.over(now):.0f} s")
        return True

    def _tell(self, sentence: str) -> None:
        self._run.warn(sentence)
        if self._run.observers:
            self._run.observers.tell(AlarmOver(KIND, sentence))

    def over(self, now: float) -> float:
        """Record that the job does not hang any more; return for how long it has."""
        self._stands = False
        hangs, lasted = self._run.record.hangs, now - self._hang.at + self._hang.seconds
        hangs[hangs.index(self._hang)] = self._hang._replace(lasted=lasted)
        return lasted


def hang_of(
    known: Explanation, views: Mapping[int, RankView], ended: Mapping[int, str], now: float
) -> Hang:
    """Return a hang as the report has it, given who waits for whom; see `Found`."""
    odd, sentence = known.odd, plain(known.sentence)
    hosts = {rank: view.host for rank, view in views.items()}
    stands = [stood(views[rank]) for rank in odd] or [max(map(stood, views.values()))]
    if known.waiting and ended and not odd:
        odd, hosts = tuple(sorted(ended)), {**ended}
        has = "have" if len(odd) > 1 else "has"
        sentence = f"{ranks_of(odd)} {has} ended with code 0 already; {sentence}"
    seconds = min(stands)
    text = f"no progress for {seconds:.0f} s: {sentence}"
    return Hang(now, text, odd, tuple(hosts[rank] for rank in odd), seconds)
