"""Lets a job continue without the terminal once all its workers run."""

from __future__ import annotations

import os

from ...common.errors import in_words
from .runner_all_running import AllRunning
from .runner_console import DetachedConsole
from .runner_keeper import JobKeeper

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ...common.loop import Loop
    from ...head.job.control import JobControl
    from ...head.output.screen import Screen
    from ...head.report.ending import Ending


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
