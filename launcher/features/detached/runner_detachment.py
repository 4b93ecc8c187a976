"""Tells when all workers of a job run, and then lets it continue without the terminal."""

from __future__ import annotations

import os
from functools import partial

from ...common.errors import in_words
from ...head.run.events import RanksStarted, Round, Started
from .runner_console import DetachedConsole
from .runner_keeper import JobKeeper

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ...common.loop import Loop
    from ...head.job.control import JobControl
    from ...head.output.screen import Screen
    from ...head.report.ending import Ending
    from ...head.run.events import RunEvent
    from ...head.run.run_view import ObservedRun


class Detachment:
    """A detached job's replacement for a terminal: a console, and a folder.

    Attributes:
        console: the terminal until all workers run, then nobody.
        complete: whether the job has left the terminal.
    """

    def __init__(self, loop: Loop, folder: str, screen: Screen, level: str) -> None:
        """Keep a job in its folder, and print its messages on a screen until it runs."""
        self.complete = False
        self._keeper = JobKeeper(folder, loop, lambda text: self.console.log(text, "warning"))
        self.console = DetachedConsole(screen, level, self._keeper.message)

    @property
    def job_id(self) -> str:
        """The id of the job."""
        return os.path.basename(self._keeper.folder)

    def watch(self, job: JobControl, then: Callable[[], None]) -> None:
        """Observe a job before it starts; `then` is called from the loop once all workers run."""
        job.observe_runs(self._keeper.observe)
        job.observe_runs(AllRunning(job.roles, then).observe)

    def detach(self, then: Callable[[], None]) -> None:
        """Let go of the terminal, and call `then` from the loop once all is written there."""
        self.complete = True
        self.console.close_screen(then)

    def keep(self, ending: Ending, log: Callable[[str, str], None]) -> None:
        """Write the ending of a job, waiting for the disk; pass a failure to `log`."""
        try:
            self._keeper.finish(ending)
        except OSError as error:
            folder, why = self._keeper.folder, in_words(error)
            log(f"cannot save the result of job {self.job_id} in {folder}: {why}", "error")


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
