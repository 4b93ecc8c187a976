"""The folder of a detached job: its description, its output, and its end.

The folders are in `$XDG_STATE_HOME/dsrun/jobs`, one for each job, for this user alone.
"""

from __future__ import annotations

import errno
import json
import os
import re
import stat
from contextlib import suppress
from enum import Enum

from ... import __version__
from ...common import files
from ...common.errors import OUTPUT, DsrunError, reason
from ...common.private_folder import PRIVATE, state_folder, state_root
from ...common.records import NamedTuple
from ...common.text import read_json
from ...common.write_all import write_all
from ...specs import field_types
from ...specs.field_types import Code, Size
from .runner_process_identity import Life, ProcessIdentity, life

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any, TypeVar

    Record = TypeVar("Record", bound=tuple[object, ...])

ABOUT, OVER, END, JOURNAL = "job.json", "over.json", "end.json", "journal"
"""The files of a folder. `job.json` becomes `over.json` if `end.json` cannot be written."""

VERSION = 2
"""Version of the file format: it grows with each change of fields. Other versions are ignored."""

JOB_ID = "[0-9]{8}-[0-9]{6}-[0-9a-f]{6}"
"""Pattern of a job id."""

LARGEST = 64 << 20
"""Bytes of a file about a job: no report is larger."""

LONGEST = 1 << 29
"""Maximum bytes of a journal that is read: above twice the size limit for any number of ranks."""

TOTALS = {
    "seconds": "float | None",
    "world_size": "Size | None",
    "hosts": "tuple[str, ...] | None",
}
"""The fields of a report that are used, if present."""

MOST_JOBS = 100
"""Number of ended jobs kept."""

MOST_AGE = 30 * 86400.0
"""Seconds for which they are kept."""

BRIEF = ("format", "job_id", "exit_code", "seconds", "world_size", "hosts", "cause")
"""The fields of a report that are kept if there is no room for more."""

MOST_TEXT = 2000
"""Characters of its text that are kept then."""

UNFINISHED = 86400.0
"""Seconds after which a folder that was never filled is removed."""


class About(NamedTuple):
    """The description of a job, known from its start.

    Attributes:
        version: the version of dsrun.
        since: the time of its start, in seconds since 1970.
        program: script and arguments, in shell syntax.
        nodes: the number of nodes of the plan.
        world_size: the number of ranks, 0 if it was unknown.
        hold: the hold that runs it; "" if it has its own runner.
        roles: the effect of the clean end of each of its roles, by name; empty for one program.
        process: the process that runs it.
    """

    job_id: str
    version: str
    since: float
    program: str
    workdir: str
    launcher: str
    nodes: Size
    world_size: Size
    hold: str
    roles: dict[str, str]
    process: ProcessIdentity


class KeptEnd(NamedTuple):
    """The end of a job.

    Attributes:
        at: the time, in seconds since 1970.
        code: the exit code of dsrun.
        text: the report in words, as a terminal shows it; "" if there is nothing to say.
        report: the report as for --report_file.
        last: the latest line of output, preceded by its rank.
        unkept: why some output could not be saved; "" if all was saved.
    """

    at: float
    code: Code
    text: str
    report: dict[str, Any]
    last: str
    unkept: str

    @property
    def loss(self) -> str:
        """A line for the user about lost output; "" if all was saved."""
        return f"dsrun: some of its output could not be saved: {self.unkept}" if self.unkept else ""


class JobState(Enum):
    """The known state of a job."""

    RUNS = "running"
    ENDED = "ended"
    KILLED = "killed"
    UNKNOWN = "unknown"
    DAMAGED = "damaged"
    ELSEWHERE = "elsewhere"


class Damage(DsrunError):
    """A folder's content cannot be read; the text says which, and why."""

    exit_code = OUTPUT


class OtherForm(Damage):
    """Another version of dsrun has written a folder, in a form that this one does not read."""


class JobFolder(NamedTuple):
    """The folder of one job.

    Attributes:
        path: the path of the folder.
        about: the description of the job.
        is_over: whether the job has ended, but its end could not be written.
    """

    path: str
    about: About
    is_over: bool

    @property
    def ending(self) -> KeptEnd | None:
        """The end of the job; None if unknown."""
        with suppress(Damage):
            return _ending(self.path)
        return None

    @property
    def damage(self) -> str:
        """The unreadable content, and the reason; "" if all can be read."""
        try:
            _ending(self.path)
            _check_journal(self.journal)
        except Damage as damage:
            return str(damage)
        return ""

    @property
    def now(self) -> JobFolder:
        """This folder, read again; unchanged if it is gone."""
        return open_folder(self.path) or self

    @property
    def journal(self) -> str:
        """The path of its journal."""
        return os.path.join(self.path, JOURNAL)

    @property
    def state(self) -> JobState:
        """The state of the job, as far as known here: KILLED if its process ended without a record.

        ELSEWHERE if that process is on another machine, UNKNOWN if the end could not be kept, and
        DAMAGED if it was kept, but cannot be read.
        """
        if self.ending is not None:
            return JobState.ENDED
        if self.is_over:
            return JobState.UNKNOWN
        found = life(self.about.process)
        if found is Life.RUNS:
            return JobState.RUNS
        try:
            if _ending(self.path) is not None:  # it may have written that just before its end
                return JobState.ENDED
        except Damage:
            return JobState.DAMAGED
        return JobState.KILLED if found is Life.ENDED else JobState.ELSEWHERE


class DamagedFolder(NamedTuple):
    """The folder of a job whose content is unreadable, except for the id.

    Attributes:
        path: the path of the folder.
        why: the unreadable part, and the reason.
        is_whole: whether another version of dsrun can read the folder.
    """

    path: str
    why: str
    is_whole: bool = False

    @property
    def job_id(self) -> str:
        """The id of the job."""
        return os.path.basename(self.path)


def is_job_folder(path: object) -> bool:
    """Return whether this can be the folder of a job."""
    if not isinstance(path, str):
        return False
    return os.path.isabs(path) and re.fullmatch(JOB_ID, os.path.basename(path)) is not None


def root(environ: Mapping[str, str]) -> str:
    """Return the parent folder of all jobs' folders; "" for a user without a home folder."""
    try:
        return os.path.join(state_root(environ), "dsrun", "jobs")
    except FileNotFoundError:
        return ""


def create(environ: Mapping[str, str], about: About) -> str:
    """Make the folder of a job, and return its path.

    Raises:
        OSError: the folder cannot be made, others could change it, or it exists already.
    """
    parent = state_folder(environ, "dsrun", "jobs")
    path = os.path.join(parent, about.job_id)
    unfinished = f"{path}.new"
    os.mkdir(unfinished, PRIVATE)
    try:
        _write_about(unfinished, about)
        os.rename(unfinished, path)  # fails if there is one that has files
    except OSError as error:
        remove(unfinished)
        if error.errno == errno.ENOTEMPTY:
            why = "a job with this id already has a folder"
            raise FileExistsError(errno.EEXIST, why, path) from None
        raise
    return path


def restore(path: str, about: About) -> None:
    """Recreate the folder of a job if somebody has removed it, or its description.

    Raises:
        OSError: the folder cannot be made.
    """
    if open_folder(path) is None:
        state = os.path.dirname(os.path.dirname(os.path.dirname(path)))
        state_folder({"XDG_STATE_HOME": state}, "dsrun", "jobs", about.job_id)
        _write_about(path, about)


def finish(path: str, end: KeptEnd) -> None:
    """Write how a job has ended; on a full disk only the essential part, in place of the output.

    Raises:
        OSError: the end cannot be written; the folder then records that, if possible.
    """
    try:
        _write(path, END, end._asdict())
    except OSError as error:
        with suppress(OSError):
            os.unlink(os.path.join(path, JOURNAL))
        known = {name: end.report[name] for name in BRIEF if name in end.report}
        brief = end._replace(report=known, text=end.text[:MOST_TEXT], unkept=reason(error))
        try:
            _write(path, END, brief._asdict())
        except OSError:
            os.rename(os.path.join(path, ABOUT), os.path.join(path, OVER))
            raise


def _write_about(path: str, about: About) -> None:
    _write(path, ABOUT, {**about._asdict(), "process": about.process._asdict()})


def _write(path: str, name: str, fields: Mapping[str, object]) -> None:
    """Write a whole file or none."""
    fresh, data = os.path.join(path, f"{name}.new"), json.dumps({"version": VERSION, "is": fields})
    try:
        fd = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with open(fd, "wb", buffering=0) as file:
            write_all(file.fileno(), data.encode())
        os.replace(fresh, os.path.join(path, name))
    except OSError:
        with suppress(OSError):
            os.unlink(fresh)
        raise


def remove(path: str) -> None:
    """Remove a folder with its files, or a file in its place, if they exist.

    Folders in it are removed only if they are empty, and no link is followed.
    """
    with suppress(OSError):
        if not stat.S_ISDIR(os.lstat(path).st_mode):
            os.unlink(path)
            return
        for name in os.listdir(path):
            inner = os.path.join(path, name)
            is_folder = stat.S_ISDIR(os.lstat(inner).st_mode)
            (os.rmdir if is_folder else os.unlink)(inner)
        os.rmdir(path)


# -- reading ------------------------------------------------------------------------------------


def find(parent: str) -> list[JobFolder]:
    """Return the readable folders of all jobs below `root`, oldest first."""
    return find_all(parent)[0]


def find_all(parent: str) -> tuple[list[JobFolder], list[DamagedFolder]]:
    """Return the readable folders, and those that cannot be read."""
    jobs, damaged = [], []
    try:
        names = sorted(name for name in os.listdir(parent) if re.fullmatch(JOB_ID, name))
    except OSError:
        names = []
    for name in names:
        path = os.path.join(parent, name)
        try:
            if one := _open(path):
                jobs.append(one)
        except Damage as damage:
            damaged.append(DamagedFolder(path, str(damage), isinstance(damage, OtherForm)))
    return sorted(jobs, key=lambda one: one.about.since), damaged


def folder_of(environ: Mapping[str, str], job_id: str) -> JobFolder | None:
    """Return the folder of a job by its whole id; None if it has none.

    Raises:
        Damage: it cannot be read.
    """
    path = os.path.join(root(environ), job_id)
    return _open(path) if is_job_folder(path) else None


def open_folder(path: str) -> JobFolder | None:
    """Return the folder of a job; None if it is not there, or cannot be read."""
    with suppress(Damage):
        return _open(path)
    return None


def _open(path: str) -> JobFolder | None:
    """Return the folder of a job; None if it is not there.

    Raises:
        Damage: it cannot be read.
    """
    try:
        status = os.lstat(path)
    except FileNotFoundError:
        return None
    if not stat.S_ISDIR(status.st_mode):
        raise Damage(f"is {files.kind(status.st_mode)}, not a folder")
    if status.st_uid != os.geteuid():
        raise Damage("belongs to another user")
    known = [name for name in (ABOUT, OVER) if os.path.lexists(os.path.join(path, name))]
    if not known:
        raise Damage(f"has no {ABOUT}")
    fields = _read(path, known[0])
    if fields is None:
        return None
    process = _record(ProcessIdentity, known[0], fields.pop("process", None))
    about = _record(About, known[0], fields, process=process)
    if about.job_id != os.path.basename(path):
        raise Damage(f"{known[0]}: it belongs to job {about.job_id[:40]}")
    return JobFolder(path, about, is_over=known[0] == OVER)


def _ending(path: str) -> KeptEnd | None:
    """Return the recorded ending of a job; None if there is no record.

    Raises:
        Damage: the file cannot be read.
    """
    fields = _read(path, END)
    if fields is None:
        return None
    report = fields.pop("report", None)
    if not isinstance(report, dict):
        raise Damage(f"{END}: report: expected an object")
    for name, hint in TOTALS.items():
        _value(END, f"report.{name}", hint, report.get(name))
    return _record(KeptEnd, END, fields, report=report)


def _record(shape: type[Record], file: str, fields: object, **known: object) -> Record:
    """Return a record from the fields in a file and some known fields.

    Raises:
        Damage: the fields do not match the record's, or a value does not fit.
    """
    hints = {name: hint for name, hint in shape.__annotations__.items() if name not in known}
    if not isinstance(fields, dict) or fields.keys() != hints.keys():
        raise Damage(f"{file}: expected the fields {', '.join(hints)}")
    values = {name: _value(file, name, hint, fields[name]) for name, hint in hints.items()}
    return shape(**values, **known)


def _value(file: str, name: str, hint: str, value: object) -> Any:
    try:
        return field_types.reader(hint)(value)
    except field_types.Misfit as misfit:
        raise Damage(f"{file}: {misfit.within(name)}") from None


def _read(path: str, name: str) -> dict[str, Any] | None:
    """Return the fields in a file; None if it is not there.

    Raises:
        Damage: it cannot be read.
    """
    try:
        whole = read_json(files.read_own(os.path.join(path, name), LARGEST))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise Damage(f"{name}: {reason(error)}") from None
    except ValueError as error:
        raise Damage(f"{name}: not valid: {error}") from None
    match whole:
        case {"version": int(form)} if form != VERSION:
            raise OtherForm(_other_form(name, form, whole.get("is")))
        case {"version": int(), "is": dict(fields)}:
            return fields
    raise Damage(f"{name}: not a file of dsrun")


def _other_form(name: str, form: int, fields: object) -> str:
    """Return the format, and dsrun version, of a file, as far as the file tells."""
    version = fields.get("version") if isinstance(fields, dict) else None
    by = f", by dsrun {version[:40]}" if isinstance(version, str) else ""
    return f"{name} is written in format {form}{by}; dsrun {__version__} reads format {VERSION}"


def _check_journal(path: str) -> None:
    try:
        files.check_own(os.lstat(path), path, LONGEST)
    except FileNotFoundError:
        return
    except OSError as error:
        raise Damage(f"{JOURNAL}: {reason(error)}") from None


# -- bounds -------------------------------------------------------------------------------------


def prune(parent: str, now: float) -> None:
    """Remove folders below `root`: of the oldest jobs beyond a number and an age, and unfinished.

    Args:
        parent: the root.
        now: the time, in seconds since 1970.
    """
    for one in surplus(find(parent), now):
        remove(one.path)
    with suppress(OSError):
        for name in os.listdir(parent):
            path = os.path.join(parent, name)
            if name.endswith(".new") and os.lstat(path).st_mtime < now - UNFINISHED:
                remove(path)


def surplus(known: Sequence[JobFolder], now: float) -> list[JobFolder]:
    """Return the folders to remove: none of a job that may still run.

    A job of another machine, which may be gone forever, is judged by the time of its last sign.
    """
    states = [(one, one.state) for one in known]
    ended = [one for one, state in states if state not in {JobState.RUNS, JobState.ELSEWHERE}]
    far = [one for one, state in states if state is JobState.ELSEWHERE]
    old = [one for one in (*ended, *far) if _last_heard(one) < now - MOST_AGE]
    known_once = {one.path: one for one in (*ended[: max(0, len(ended) - MOST_JOBS)], *old)}
    return [*known_once.values()]


def _last_heard(one: JobFolder) -> float:
    """Return the time of a job's end, or of its last record, in seconds since 1970."""
    if end := one.ending:
        return end.at
    with suppress(OSError):
        return os.stat(one.journal).st_mtime
    return one.about.since
