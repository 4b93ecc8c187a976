"""Jobs that go on when the program that has launched them ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

from ..backends.base import package_root
from ..commands.job_wait import until_end
from ..common.errors import LOST, DsrunError
from ..control import local
from ..control.local_client import connect
from ..head.detached import journal
from ..head.detached.job_folder import folder_of
from ..head.detached.journal_reader import JournalReader
from ..head.report.document import read
from .errors import JobError, LaunchError
from .options import words
from .plan import plan, planned
from .process import BOOT
from .stacks import read as read_stacks

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..head.detached.job_folder import End, JobFolder
    from ..head.report.document import Report
    from .stacks import Stacks

PATIENCE = 10.0
"""Seconds for a job to answer."""


def launch_detached(
    target: str | os.PathLike[str], args: Iterable[object] = (), **options: object
) -> DetachedJob:
    """Launch a script, and return once all its ranks run; it goes on without this program.

    Args:
        target: the path of a script, the name of a module with `module=True`, or a command with
            `no_python=True`.
        args: its arguments.
        options: options of dsrun by their names, as for `launch`.

    Raises:
        LaunchError: the job cannot be planned, its ranks do not run, or it is a function, whose
            results nobody would get; nothing is left running.
    """
    if callable(target):
        raise LaunchError(
            "launch_detached: expected a script, a module or a command; functions need launch"
        )
    arguments = [str(one) for one in args]
    spec = plan(target, arguments, None, options, planned)  # refuses here what can be refused
    silent = [] if spec.plan.program.local_rank else ["--no_local_rank"]
    argv = ["--detach", *words(options), *silent, "--", os.fspath(target), *arguments]
    command = [sys.executable, "-c", BOOT, package_root(), "dsrun.launcher.runner", *argv]
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise LaunchError(done.stderr.strip().removeprefix("dsrun: "), done.returncode)
    sys.stderr.write(done.stderr)
    return DetachedJob(done.stdout.strip())


class DetachedJob:
    """A job that needs no program: one of `launch_detached`, or of `dsrun --detach`.

    Attributes:
        id: the job's id.
    """

    def __init__(self, job_id: str) -> None:
        """Find a job of this user by its whole id.

        Raises:
            JobError: there is none.
        """
        self.id = job_id
        self._folder = self._found()

    def _found(self) -> JobFolder:
        folder = folder_of(os.environ, self.id)
        if folder is None:
            raise JobError(f"job {self.id}: nothing is kept of a detached job of this id")
        return folder

    def done(self) -> bool:
        """Return whether the job has ended, and how is known."""
        return self._folder.end is not None

    @property
    def report(self) -> Report | None:
        """How the job has ended; None if it has not."""
        end = self._folder.end
        return None if end is None else _report(end)

    def wait(self, timeout: float | None = None) -> Report:
        """Wait for the end of the job and return its report, whether it has failed or not.

        A program that is interrupted meanwhile does not stop the job.

        Args:
            timeout: seconds to wait; None for no limit.

        Raises:
            JobError: what ran the job was killed, or how it has ended could not be written.
            TimeoutError: the job has not ended in time; it goes on.
        """
        try:
            return _report(until_end(self._folder, timeout))
        except DsrunError as error:
            raise JobError(str(error), error.exit_code) from None

    def stdout(self, rank: int = 0, role: str = "") -> str:
        """Return what a rank has written to its standard output, as far as it is kept.

        Args:
            rank: the rank.
            role: its role, "" in a job of one program.
        """
        return self._output(journal.STDOUT, rank, role)

    def stderr(self, rank: int = 0, role: str = "") -> str:
        """Return the same of its standard error."""
        return self._output(journal.STDERR, rank, role)

    def _output(self, *key: object) -> str:
        known = JournalReader(self._folder.journal).new()
        data = b"".join(one.data for one in known if (one.kind, one.rank, one.role) == key)
        return data.decode("utf-8", "replace")

    def stop(self, *, now: bool = False) -> None:
        """Stop the ranks with SIGTERM, and kill what is left after the grace; does not wait.

        Args:
            now: without the grace.

        Raises:
            JobError: the job does not run on this machine, or does not answer.
        """
        self._ask({"do": "stop", "number": int(signal.SIGTERM), "now": now})

    def signal(self, number: int) -> None:
        """Send a signal to every rank; raises as `stop`."""
        self._ask({"do": "signal", "number": int(number)})

    def stacks(self, *, native: bool = False) -> Stacks:
        """Return where the ranks are in their code; see `Job.stacks`."""
        return read_stacks(self.id, native=native)

    def _ask(self, message: dict[str, object]) -> None:
        client = connect(local.JOB, self.id)
        if client is None:
            raise JobError(f"job {self.id}: it is not running on this machine", LOST)
        with client:
            try:
                client.ask(message, seconds=PATIENCE)
            except DsrunError as error:
                raise JobError(f"job {self.id}: {error}", error.exit_code) from None

    def __repr__(self) -> str:
        return f"<DetachedJob {self.id}, {self._folder.now.state.value}>"


def _report(end: End) -> Report:
    return read(end.report, end.text)
