"""Tells when all workers of a job are running."""

from __future__ import annotations

from functools import partial

from ...head.run.events import RanksStarted, Round, Started

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ...head.run.events import RunEvent
    from ...head.run.run_view import ObservedRun


class AllRunning:
    """Observes the runs of all roles of a job until the workers of each have started once."""

    def __init__(self, roles: Iterable[str], then: Callable[[], None]) -> None:
        """Call `then` from the loop, once."""
        self._missing = set(roles)
        self._then = then

    def observe(self, run: ObservedRun) -> None:
        """Observe a run of a role before it begins."""
        if run.role in self._missing:
            run.observe(_Workers(run, partial(self._on_running, run.role)).on_event)

    def _on_running(self, role: str) -> None:
        if role in self._missing:
            self._missing.remove(role)
            if not self._missing:
                self._then()


class _Workers:
    """Observes a run until all its workers, or all workers of its round, have started."""

    def __init__(self, run: ObservedRun, then: Callable[[], None]) -> None:
        """Call `then` each time all workers have started."""
        self._view, self._then = run.view, then
        self._size = 0
        self._started: set[int] = set()

    def on_event(self, event: RunEvent) -> None:
        """Count started workers."""
        if type(event) is RanksStarted:
            self._started.update(event.ranks)
            if self._all:
                self._then()
        elif type(event) in {Started, Round}:
            self._size = event.world_size  # type: ignore[union-attr]
            self._started.clear()

    @property
    def _all(self) -> bool:
        """True if all workers (with torch's rendezvous, this runner's only) have started."""
        run = self._view()
        if run.plan.rendezvous is None:
            return len(self._started) >= self._size
        return all(run.workers.began(node) for node in run.nodes if not node.over)
