"""A job whose runner continues without the terminal once all workers run."""

from __future__ import annotations

import os
import signal

from ...backends import name_of
from ...common.loop import Loop
from ...common.stderr import tell
from ...head.job.launch import launch
from ...head.output.console import Console
from ...head.report.ending import Ending
from .runner_detachment import Detachment
from .runner_new_folder import new_folder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ...backends.base import Part
    from ...common.detach import Parent
    from ...head.job.control import JobControl, MakePrograms
    from ...head.job.start import PreparedStart
    from ...specs.job import JobSpec
    from ...specs.plan import Node
    from ...specs.roles import RoleSpec


def run(
    parent: Parent,
    roles: Sequence[RoleSpec],
    spec: JobSpec,
    start: PreparedStart,
    backend_for: Callable[[Node], Part],
    programs: MakePrograms,
) -> int:
    """Run a job that is kept in a folder; return the exit code.

    Args:
        parent: told once all workers run; if the parent ends before that, so does the job.
        roles: the roles of the job; empty for one program.
        spec: the job.
        start: its plan and its prepared backends.
        backend_for: returns the backend for a node that joins later.
        programs: prepares its programs on a fleet.

    Raises:
        DsrunError: the job cannot be started; nothing is left running.
    """
    folder = new_folder(spec, os.environ, os.getpid(), roles=roles)
    restarts = any(one.on_failure == "restart" or one.job.elastic is not None for one in roles)
    reconnects = spec.elastic is not None or restarts
    loop, shown = Loop(), spec.output
    screen = Console(loop, colour=shown.color, level=shown.level, fold="never")
    detachment = Detachment(loop, folder, screen, shown.level)
    terminal = _Terminal(loop, parent, detachment, spec, start.parts, reconnects=reconnects)
    console = detachment.console
    try:
        ending = launch(spec, start, backend_for, loop, console, terminal.watch, programs)
    except Exception as error:
        detachment.keep(Ending(spec.job_id, error), _tell)
        raise
    detachment.keep(ending, _tell)
    if ending.error is not None:
        raise ending.error
    if not ending.code:
        terminal.detach()
    return ending.code


def _tell(text: str, _level: str) -> None:
    tell(text)


class _Terminal:
    """The terminal of a detached job until it leaves."""

    def __init__(
        self,
        loop: Loop,
        parent: Parent,
        detachment: Detachment,
        spec: JobSpec,
        parts: Sequence[Part],
        *,
        reconnects: bool,
    ) -> None:
        """Prepare the terminal of a detached job.

        Args:
            loop: the loop of the job.
            parent: told once all workers run.
            detachment: replaces the terminal from then on.
            spec: the job.
            parts: each backend with the nodes it starts.
            reconnects: whether the job connects again to nodes that were lost.
        """
        self._loop = loop
        self._parent: Parent | None = parent
        self._detachment = detachment
        self._spec, self._parts, self._reconnects = spec, parts, reconnects

    def watch(self, job: JobControl) -> None:
        """Observe a job before it starts: leave once it runs; end it if the parent ends earlier."""
        self._detachment.watch(job, self._on_running)
        if self._parent is not None:
            self._loop.add_reader(self._parent.fileno(), lambda: self._on_parent_gone(job))
        # A job ends with its own allocation.
        own = self._parent is not None and self._parent.handed_over
        if not own and (note := of_scheduler(self._spec, os.environ)):
            self._warn(note)

    def _warn(self, text: str) -> None:
        self._detachment.console.log(text, "warning")

    def _on_running(self) -> None:
        """Leave the terminal; from now on the job runs as under nohup."""
        if self._parent is not None:
            self._loop.remove(self._parent.fileno())
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        if self._reconnects and (note := of_agent(self._parts, os.environ)):
            self._warn(note)
        self._detachment.detach(self.detach)

    def _on_parent_gone(self, job: JobControl) -> None:
        """End the job: nobody knows that it has started."""
        if self._parent is not None:
            self._loop.remove(self._parent.fileno())
            self._parent = None
        if not job.ending:
            job.on_end_signal(signal.SIGHUP)

    def detach(self) -> None:
        """Let the parent print the job's id and exit, if it still runs and has not done so."""
        parent, self._parent = self._parent, None
        if parent is not None:
            parent.detach(f"{self._detachment.job_id}\n", folder=None)


SCHEDULERS = {
    "SLURM_JOB_ID": ("Slurm job", "script or salloc"),
    "PBS_JOBID": ("PBS job", "script or interactive shell"),
    "LSB_JOBID": ("LSF job", "script or interactive shell"),
    "COBALT_JOBID": ("Cobalt job", "script or interactive shell"),
}
"""By scheduler variable: the scheduler's name for a job, and the program whose exit ends it."""


def of_scheduler(spec: JobSpec, environ: Mapping[str, str]) -> str:
    """Return a note for a job inside the job of a scheduler, "" for any other."""
    for variable, (job, ends) in SCHEDULERS.items():
        if number := environ.get(variable):
            return (
                f"this job ends with {job} {number}, even if it is detached, and {job} {number}"
                f" ends when its {ends} exits; `dsrun-job wait {spec.job_id}` waits for this job"
            )
    return ""


def of_agent(parts: Sequence[Part], environ: Mapping[str, str]) -> str:
    """Return a note for a job that may reconnect to nodes with a key of the user's agent.

    paramiko knows which key was used; the program ssh does not tell, and may have used one.
    """
    if not environ.get("SSH_AUTH_SOCK"):
        return ""
    for part in parts:
        came = CAME.get(name_of(part.backend))
        if came and part.nodes and getattr(part.backend, "used_agent", True):
            return (
                f"the ssh key {came} from your agent ({environ['SSH_AUTH_SOCK']}): after the agent"
                " exits, as at logout, lost nodes cannot be reached again; with a key file without"
                " a passphrase they can"
            )
    return ""


CAME = {"ssh": "came", "openssh": "may have come"}
"""Backends that connect again; paramiko's knows whether a key was the agent's."""
