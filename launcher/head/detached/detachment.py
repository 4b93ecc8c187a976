"""Lets a job go on without the terminal once all its workers run."""

from __future__ import annotations

import os

from ...common.errors import in_words
from .all_running import AllRunning
from .console import DetachedConsole
from .keeper import Keeper

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ...common.loop import Loop
    from ..output.console import Console
    from ..report.ending import Ending
    from ..run.run import Run


class Detachment:
    """What a detached job has in place of a terminal: a console, and a folder.

    Attributes:
        console: the terminal until all workers run, then nobody.
        complete: whether the job has let go of the terminal.
    """

    def __init__(self, loop: Loop, folder: str, screen: Console, level: str) -> None:
        """Keep a job in its folder, and print its messages on a screen until it runs."""
        self.complete = False
        self._keeper = Keeper(folder, loop, lambda text: self.console.log(text, "warning"))
        self.console = DetachedConsole(screen, level, self._keeper.message)

    @property
    def job_id(self) -> str:
        """The id of the job."""
        return os.path.basename(self._keeper.folder)

    def watch(self, run: Run, then: Callable[[], None], last: Callable[[], str] = str) -> None:
        """Observe a run before it begins.

        Args:
            run: the run.
            then: called from the loop once all workers run, and the terminal has been left.
            last: returns the last note for the user, "" for none.
        """
        self._keeper.observe(run)

        def leave() -> None:
            self.complete = True
            if note := last():
                run.warn(note)
            self.console.leave(then)

        AllRunning(run, leave)

    def keep(self, ending: Ending, log: Callable[[str, str], None]) -> None:
        """Write how the job has ended, which waits for the disk; `log` is told if it cannot be."""
        try:
            self._keeper.end(ending)
        except OSError as error:
            folder, why = self._keeper.folder, in_words(error)
            log(f"cannot keep how job {self.job_id} has ended in {folder}: {why}", "error")
