"""A job whose runner goes on without the terminal once all workers run."""

from __future__ import annotations

import os
import signal

from ...common.loop import Loop
from ...common.tell import tell
from ...common.values import NamedTuple
from ..job.launch import launch
from ..output.console import Console
from ..report.ending import Ending
from . import notes
from .detachment import Detachment
from .new_folder import new_folder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any, TypeAlias

    from ...backends.base import Part
    from ...common.detach import Parent
    from ...specs.job import JobSpec
    from ...specs.plan import Node
    from ...specs.roles import RolesSpec
    from ..job.start import Start
    from ..roles.roles_job import RolesJob
    from ..run.run import Run

    Conduct: TypeAlias = Callable[[Loop, Any, "_Terminal"], Ending]


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

    def conduct(loop: Loop, console: Any, terminal: _Terminal) -> Ending:
        return launch(spec, start, backend_for, loop, console, terminal.watch)

    folder = new_folder(spec, os.environ, os.getpid())
    return _run(parent, spec, start, folder, conduct)


def run_roles(parent: Parent, spec: RolesSpec, start: Start) -> int:
    """Run a job of several roles likewise; the parent is told once the workers of all roles run."""
    from ..roles import launch as roles

    def conduct(loop: Loop, console: Any, terminal: _Terminal) -> Ending:
        return roles.conduct(spec, start, loop, console, terminal.watch_roles)

    folder = new_folder(spec.job, os.environ, os.getpid(), roles=spec.roles)
    return _run(parent, spec.job, start, folder, conduct)


def _run(parent: Parent, spec: JobSpec, start: Start, folder: str, conduct: Conduct) -> int:
    """Run a job that is kept in a folder; return the exit code.

    Raises:
        DsrunError: the job cannot be started; nothing is left running.
    """
    loop, shown = Loop(), spec.output
    screen = Console(loop, colour=shown.color, level=shown.level, fold="never")
    detachment = Detachment(loop, folder, screen, shown.level)
    terminal = _Terminal(parent, detachment, start.parts)
    try:
        ending = conduct(loop, detachment.console, terminal)
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


class _Started(NamedTuple):
    """A job that the terminal can end while it starts.

    Attributes:
        ending: returns whether it is ending.
        end: ends it as this signal does.
        warn: prints a warning.
        reconnects: whether it connects again to nodes that were lost.
    """

    spec: JobSpec
    loop: Loop
    ending: Callable[[], bool]
    end: Callable[[int], None]
    warn: Callable[[str], None]
    reconnects: bool


class _Terminal:
    """The terminal in which the user has started the job."""

    def __init__(self, parent: Parent, detachment: Detachment, parts: Sequence[Part]) -> None:
        self._parent: Parent | None = parent
        self._detachment = detachment
        self._parts = parts

    def watch(self, run: Run) -> None:
        """Observe a run before it begins: leave once it runs, and end it with the parent before."""
        elastic = run.spec.elastic is not None
        job = _Started(run.spec, run.loop, lambda: run.ending, run.end_by, run.warn, elastic)
        self._detachment.watch(run, lambda: self._on_running(job))
        self._begin(job)

    def watch_roles(self, roles: RolesJob) -> None:
        """Do the same for a job of roles: leave once the workers of all of them run."""

        def warn(text: str) -> None:
            roles.log(text, "warning")

        restarts = any(
            one.on_failure == "restart" or one.job.elastic is not None for one in roles.spec.roles
        )
        whole = roles.spec.job
        job = _Started(whole, roles.loop, lambda: roles.ending, roles.end, warn, restarts)
        self._detachment.watch_roles(roles, lambda: self._on_running(job))
        self._begin(job)

    def _begin(self, job: _Started) -> None:
        if self._parent is not None:
            job.loop.add_reader(self._parent.fileno(), lambda: self._on_parent_gone(job))
        # An allocation of its own ends with it.
        own = self._parent is not None and self._parent.handed_over
        if not own and (note := notes.of_scheduler(job.spec, os.environ)):
            job.warn(note)

    def _on_running(self, job: _Started) -> None:
        """Let the terminal go; from now on it is as under nohup."""
        if self._parent is not None:
            job.loop.remove(self._parent.fileno())
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        if job.reconnects and (note := notes.of_agent(self._parts, os.environ)):
            job.warn(note)
        self._detachment.leave(self.leave)

    def _on_parent_gone(self, job: _Started) -> None:
        """End the job: nobody knows that it has begun."""
        if self._parent is not None:
            job.loop.remove(self._parent.fileno())
            self._parent = None
        if not job.ending():
            job.end(signal.SIGHUP)

    def leave(self) -> None:
        """Let the parent print the job's id and exit, unless it has done so or is gone."""
        parent, self._parent = self._parent, None
        if parent is not None:
            parent.leave(f"{self._detachment.job_id}\n", folder=None)
