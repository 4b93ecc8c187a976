"""Finds detached jobs, running and ended ones, by the words with which dsrun-job is called."""

from __future__ import annotations

import os

from ...common.errors import OUTPUT, DsrunError, LostError, UsageError
from ...common.records import NamedTuple
from ...control import local
from ..detached import runner_job_folder as job_folder
from ..detached.runner_job_folder import DamagedFolder, JobFolder, JobState
from . import command_names as job_names
from . import command_read as job_read
from .command_names import LAST, NamedSocket

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

KEPT = "ended job"
"""The kind of a job that does not run and has left its folder."""


class KeptJob(NamedTuple):
    """A job.

    Attributes:
        place: its socket while it runs; otherwise its name alone.
        folder: the kept folder, None if it is not detached.
    """

    place: NamedSocket
    folder: JobFolder | None

    @property
    def runs(self) -> bool:
        """True if the job can be asked."""
        return self.place.kind != KEPT


class DamagedJob(UsageError):
    """The error for a job whose folder cannot be read.

    Attributes:
        folder: the unreadable folder.
    """

    def __init__(self, folder: DamagedFolder) -> None:
        """Describe the damage, and the command that removes the folder."""
        wrong = "" if folder.is_whole else "its folder is damaged: "
        other = "; ask the dsrun that started it, or" if folder.is_whole else ";"
        super().__init__(
            f"dsrun-job: job {folder.job_id}: {wrong}{folder.why}{other}"
            f" `dsrun-job forget {folder.job_id}` removes it"
        )
        self.folder = folder


def folders() -> list[JobFolder]:
    """Return the folders of all detached jobs of this user, the oldest first."""
    return job_folder.find(job_folder.root(os.environ))


def damaged() -> list[DamagedFolder]:
    """Return the folders of detached jobs of this user that cannot be read."""
    return job_folder.find_all(job_folder.root(os.environ))[1]


def _check_whole(word: str) -> None:
    """Check that a word does not mean an unreadable folder."""
    for folder in damaged():
        if word in folder.job_id:
            raise DamagedJob(folder)


def find(words: Sequence[str]) -> KeptJob:
    """Return the requested job or hold; a running one is preferred to one that has ended.

    Raises:
        UsageError: there is no match, or more than one.
        DamagedJob: its folder cannot be read.
    """
    word = words[0] if words else None
    kept = {one.about.job_id: one for one in folders()}
    running = job_names.places()
    names = {one.name for one in running}
    gone = [NamedSocket(KEPT, name) for name in kept if name not in names]
    if word and word != LAST and not any(word in name for name in names | kept.keys()):
        ended = {name: one.about.program for name, one in kept.items() if name not in names}
        word = job_names.by_program(
            "", word, running, lambda jobs: ended | job_read.running_programs(jobs)
        )
    if word == LAST:
        place = _last(running, gone)
    elif word and not any(word in name for name in names):
        if not any(word in one.name for one in gone):
            _check_whole(word)
            raise UsageError(
                f"dsrun-job: no job {word[:40]} on this machine; running:"
                f" {job_names.named(running)}; ended: {job_names.named(gone)}"
            )
        place = job_names.choose(word, gone, _newest)
    else:
        place = job_names.choose(word, running, job_read.newest)
    return KeptJob(place, kept.get(place.name))


def check_not_ended(word: str) -> None:
    """Check that a word means no ended detached job, which cannot be asked anything.

    Raises:
        UsageError: the word means such a job.
    """
    for folder in folders():
        if word in (name := folder.about.job_id) and folder.state is not JobState.ELSEWHERE:
            raise UsageError(
                f"dsrun-job: job {name} has ended; `dsrun-job report {name}` shows how"
            )
    _check_whole(word)


def _last(running: Sequence[NamedSocket], gone: Sequence[NamedSocket]) -> NamedSocket:
    """Return the newest job; an id begins with the time of its start.

    Raises:
        UsageError: there is no job.
        DamagedJob: its folder cannot be read.
    """
    jobs = [one for one in running if one.kind == local.JOB]
    newest = _newest([*jobs, *gone])
    for folder in damaged():
        if folder.job_id > (newest.name if newest else ""):
            raise DamagedJob(folder)
    return newest or job_names.choose(None, [], job_read.newest)


def _newest(places: Sequence[NamedSocket]) -> NamedSocket | None:
    return max(places, key=lambda one: one.name, default=None)


def without_end(folder: JobFolder, state: JobState) -> DsrunError:
    """Return the error for a job that has ended without a record."""
    about = folder.about
    if state in {JobState.UNKNOWN, JobState.DAMAGED}:
        why = (
            "could not be written" if state is JobState.UNKNOWN else f"is damaged: {folder.damage}"
        )
        error = DsrunError(f"job {about.job_id} has ended, but its result {why}")
        error.exit_code = OUTPUT
        return error
    process = f"pid {about.process.pid} on {about.process.machine}"
    what = f"the hold {about.hold}" if about.hold else "its dsrun"
    return killed(about.job_id, f"{what} ({process}) was killed, or its machine went down")


def killed(job_id: str, what: str) -> LostError:
    """Return the error for a job whose runner was killed."""
    return LostError(
        f"job {job_id}: {what}; the nodes then stop the ranks, and `dsrun-job kill {job_id} -H"
        " FILE` finds leftovers"
    )
