"""Tells when all workers of a run, or of all roles of a job, are running."""

from __future__ import annotations

from functools import partial

from ..run.events import RanksStarted, Round, Started

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ..run.events import RunEvent
    from ..run.run import Run


class AllRunning:
    """Observes a run until all its workers, or in a round all workers of that, have started."""

    def __init__(self, run: Run, then: Callable[[], None]) -> None:
        """Call `then` from the loop, once."""
        self._run = run
        self._then: Callable[[], None] | None = then
        self._size = 0
        self._started: set[int] = set()
        run.observe(self.on_event)

    def on_event(self, event: RunEvent) -> None:
        """Count the workers that have started."""
        if type(event) is RanksStarted:
            self._started.update(event.ranks)
            if self._then is not None and self._all:
                then, self._then = self._then, None
                then()
        elif type(event) in {Started, Round}:
            self._size = event.world_size  # type: ignore[union-attr]
            self._started.clear()

    @property
    def _all(self) -> bool:
        """Whether all have started: with torch's rendezvous those of this runner's own nodes."""
        if self._run.plan.rendezvous is None:
            return len(self._started) >= self._size
        return all(self._run.workers.began(node) for node in self._run.nodes if not node.over)


class AllRolesRunning:
    """Observes the runs of all roles of a job until the workers of each have started once."""

    def __init__(self, roles: Iterable[str], then: Callable[[], None]) -> None:
        """Call `then` from the loop, once."""
        self._missing = set(roles)
        self._then = then

    def observe(self, role: str, run: Run) -> None:
        """Observe a run of a role before it begins."""
        if role in self._missing:
            AllRunning(run, partial(self._on_running, role))

    def _on_running(self, role: str) -> None:
        if role in self._missing:
            self._missing.remove(role)
            if not self._missing:
                self._then()
