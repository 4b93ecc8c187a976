"""A job whose runner goes on without the terminal once all workers run."""

from __future__ import annotations

import os
import signal

from ...common.loop import Loop
from ...common.tell import tell
from ..output.console import Console
from ..report.ending import Ending
from ..run.launch import launch
from . import notes
from .detachment import Detachment
from .new_folder import new_folder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from ...backends.base import Part
    from ...common.detach import Parent
    from ...specs.job import JobSpec
    from ...specs.plan import Node
    from ..run.run import Run
    from ..run.start import Start


def run(parent: Parent, spec: JobSpec, start: Start, backend_for: Callable[[Node], Part]) -> int:
    """Run a job; return the exit code.

    Args:
        parent: is told once all workers run; if it ends before, so does the job.
        spec: the job.
        start: its plan and its prepared backends.
        backend_for: returns the backend for a node that joins later.

    Raises:
        DsrunError: the job cannot be started; nothing is left running.
    """
    folder = new_folder(spec, os.environ, os.getpid())
    loop, shown = Loop(), spec.output
    screen = Console(loop, colour=shown.color, level=shown.level, fold="never")
    detachment = Detachment(loop, folder, screen, shown.level)
    terminal = _Terminal(parent, detachment, start.parts)
    console: Any = detachment.console
    try:
        ending = launch(spec, start, backend_for, loop, console, terminal.watch)
    except Exception as error:
        detachment.keep(Ending(spec.job_id, error), _tell)
        raise
    detachment.keep(ending, _tell)
    if ending.error is not None:
        raise ending.error
    if not ending.code:
        terminal.leave()
    return ending.code


def _tell(text: str, _level: str) -> None:
    tell(text)


class _Terminal:
    """The terminal in which the user has started the job."""

    def __init__(self, parent: Parent, detachment: Detachment, parts: Sequence[Part]) -> None:
        self._parent: Parent | None = parent
        self._detachment = detachment
        self._parts = parts

    def watch(self, run: Run) -> None:
        """Observe a run before it begins: leave once it runs, and end it with the parent before."""
        if self._parent is not None:
            run.loop.add_reader(self._parent.fileno(), lambda: self._on_parent_gone(run))
        self._detachment.watch(run, self.leave, lambda: self._last_note(run))
        if note := notes.of_scheduler(run.spec, os.environ):
            run.warn(note)

    def _last_note(self, run: Run) -> str:
        if self._parent is not None:
            run.loop.remove(self._parent.fileno())
        # From now on as under nohup.
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        return notes.of_agent(run.spec, self._parts, os.environ)

    def _on_parent_gone(self, run: Run) -> None:
        """End the job: nobody knows that it has begun."""
        if self._parent is not None:
            run.loop.remove(self._parent.fileno())
            self._parent = None
        if not run.ending:
            run.signals.end(signal.SIGHUP)

    def leave(self) -> None:
        """Let the parent print the job's id and exit, unless it has done so or is gone."""
        parent, self._parent = self._parent, None
        if parent is not None:
            parent.leave(f"{self._detachment.job_id}\n", folder=None)
