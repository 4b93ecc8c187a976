"""Jobs that continue when the program that launched them ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

from ..backends.own_module import module_argv
from ..common.errors import LOST, OUTPUT, DsrunError
from ..control import local
from ..control.local_client import connect
from ..control.versions import another
from ..features.detached import runner_journal as journal
from ..features.detached.runner_job_folder import Damage, OtherForm, folder_of
from ..features.detached.runner_journal_reader import JournalReader
from ..features.jobs.command_wait import until_end
from ..features.roles.plan_command_line import COLON
from .errors import JobError, LaunchError
from .options import words
from .plan import plan, planned
from .report import read
from .roles import plan as plan_roles
from .stacks import read as read_stacks

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

    from ..features.detached.runner_job_folder import JobFolder, KeptEnd
    from .report import Report
    from .roles import Role
    from .stacks import Stacks

PATIENCE = 10.0
"""Seconds for a job to answer."""


def launch_detached(
    target: str | os.PathLike[str] | None = None,
    args: Iterable[object] = (),
    *,
    roles: Sequence[Role] | None = None,
    **options: object,
) -> DetachedJob:
    """Launch a script, and return once all its ranks run; it continues without this program.

    Args:
        target: the path of a script, the name of a module with `module=True`, or a command with
            `no_python=True`.
        args: its arguments.
        roles: the programs of a job of several, in place of the two above.
        options: options of dsrun by their names, as for `launch`.

    Raises:
        LaunchError: the job cannot be planned, its ranks do not run, or it is a function, whose
            results nobody would get; nothing is left running.
    """
    targets = [target] if roles is None else [role.target for role in roles]
    if any(one is None or callable(one) for one in targets):
        raise LaunchError(
            "launch_detached: expected a script, a module or a command; functions need launch"
        )
    if target is not None and roles is not None:
        raise LaunchError("roles: not with a script; each Role has its own")
    argv = _of_roles(roles, options) if roles is not None else _of_one(target, args, options)
    command = module_argv("dsrun.launcher.runner", "--detach", *argv)
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise LaunchError(done.stderr.strip().removeprefix("dsrun: "), done.returncode)
    sys.stderr.write(done.stderr)
    return DetachedJob(done.stdout.strip())


def _of_one(target: Any, args: Iterable[object], options: Mapping[str, object]) -> list[str]:
    """Return a job of one program as words of a command line; plan it, to find errors here."""
    arguments = [str(one) for one in args]
    spec = plan(target, arguments, None, options, planned)
    silent = [] if spec.plan.program.local_rank else ["--no_local_rank"]
    return [*words(options), *silent, "--", os.fspath(target), *arguments]


def _of_roles(roles: Sequence[Role], options: Mapping[str, object]) -> list[str]:
    """Return the command line of a job of several roles.

    Raises:
        LaunchError: the job cannot be planned, or written as a command line.
    """
    plan_roles(roles, options)
    programs = [role.words for role in roles]
    if any(COLON in one for one in programs):
        raise LaunchError(f"roles: {COLON!r} cannot be an argument of a detached program")
    joined = [word for one in programs for word in (COLON, *one)]
    return [*words(options), *joined[1:]]


class DetachedJob:
    """A job that needs no program: one of `launch_detached`, or of `dsrun --detach`."""

    def __init__(self, job_id: str) -> None:
        """Find a job of this user by its whole id.

        Raises:
            JobError: there is no such job, or its folder is damaged.
        """
        self.id = job_id
        self._folder = self._found()

    def _found(self) -> JobFolder:
        try:
            folder = folder_of(os.environ, self.id)
        except OtherForm as other:
            raise JobError(f"job {self.id}: {other}") from None
        except Damage as damage:
            raise JobError(f"job {self.id}: its folder is damaged: {damage}") from None
        if folder is None:
            raise JobError(f"job {self.id}: no record of a detached job with this id")
        return folder

    def done(self) -> bool:
        """Return whether the job has ended, with a known result."""
        return self._folder.ending is not None

    @property
    def report(self) -> Report | None:
        """The report of the job; None if it has not ended."""
        end = self._folder.ending
        return None if end is None else _report(end)

    def wait(self, timeout: float | None = None) -> Report:
        """Wait for the end of the job and return its report, whether it has failed or not.

        An interrupt of the program during the wait does not stop the job.

        Args:
            timeout: seconds to wait; None for no limit.

        Raises:
            JobError: the runner of the job was killed, or the job's end could not be written.
            TimeoutError: the job has not ended in time; it continues.
        """
        try:
            return _report(until_end(self._folder, timeout))
        except DsrunError as error:
            raise JobError(str(error), error.exit_code) from None

    def stdout(self, rank: int = 0, role: str = "") -> str:
        """Return the kept standard output of a rank.

        Args:
            rank: the rank.
            role: its role, "" in a job of one program.
        """
        return self._output(journal.STDOUT, rank, role)

    def stderr(self, rank: int = 0, role: str = "") -> str:
        """Return the kept standard error of a rank."""
        return self._output(journal.STDERR, rank, role)

    def _output(self, *key: object) -> str:
        try:
            known = JournalReader(self._folder.journal).new()
        except Damage as damage:
            raise JobError(f"job {self.id}: {damage}", damage.exit_code) from None
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

    def stacks(self, *, role: str = "", native: bool = False) -> Stacks:
        """Return the stacks of the ranks; see `Job.stacks`.

        Raises:
            JobError: the job has no such role; or see `Job.stacks`.
        """
        return read_stacks(self.id, role=role, native=native)

    def _ask(self, message: dict[str, object]) -> None:
        client = connect(local.JOB, self.id)
        if client is None:
            raise JobError(f"job {self.id}: it is not running on this machine", LOST)
        with client:
            try:
                client.ask(message, seconds=PATIENCE)
            except DsrunError as error:
                other = another(local.JOB, self.id)
                raise JobError(f"job {self.id}: {error}{other}", error.exit_code) from None

    def __repr__(self) -> str:
        return f"<DetachedJob {self.id}, {self._folder.now.state.value}>"


def _report(end: KeptEnd) -> Report:
    try:
        return read(end.report, end.text)
    except (LookupError, TypeError, AttributeError) as error:
        raise JobError(f"its report is incomplete: {error!r}", OUTPUT) from None
