"""`dsrun-job list --ended` and `dsrun-job forget`: detached jobs that have ended."""

from __future__ import annotations

import json
import os
import time

from ...common import entry
from ...common.errors import UsageError
from ...common.formats import versioned
from ...common.wording import counted
from ..detached.runner_job_folder import JobState, remove
from . import command_kept as job_kept
from .command_read import JobRow, age, safe_row, table

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..detached.runner_job_folder import DamagedFolder, JobFolder
    from .json_types import EndedJobJson, EndedJson

MAY_RUN = {JobState.RUNS, JobState.ELSEWHERE}


def ended() -> Sequence[tuple[JobFolder, JobState]]:
    """Return the detached jobs that do not run on this machine, the newest first."""
    known = [(one, one.state) for one in job_kept.folders()]
    return [(one, state) for one, state in known if state is not JobState.RUNS][::-1]


def as_table(
    jobs: Sequence[tuple[JobFolder, JobState]], damaged: Sequence[DamagedFolder], width: int
) -> str:
    """Return the ended jobs as a table, with unreadable ones at the end."""
    now = time.time()
    rows = [_row(one, state, now) for one, state in jobs]
    rows += [_row_of_damaged(one) for one in damaged]
    return table(rows, width) if rows else ""


def _row_of_damaged(one: DamagedFolder) -> JobRow:
    words, why = JobState.DAMAGED.value, f"{JobState.DAMAGED.value}: {one.why}"
    if one.is_whole:
        words, why = "other format", one.why
    return safe_row(JobRow(one.job_id, words, "", "", "", "", why))


def _row(one: JobFolder, state: JobState, now: float) -> JobRow:
    about, end = one.about, one.ending
    words, since, nodes, ranks, last = state.value, about.since, about.nodes, about.world_size, ""
    if end is not None:
        words = f"exit code {end.code}" if end.code else "ended"
        since, last = end.at, end.last
        nodes = len(end.report.get("hosts") or ()) or nodes
        ranks = end.report.get("world_size") or ranks
    elif state is JobState.ELSEWHERE:
        words = f"on {about.process.machine}"
    if damage := one.damage:
        last = f"{JobState.DAMAGED.value}: {damage}"
    size = str(ranks or "?")
    row = JobRow(about.job_id, words, str(nodes), size, age(now - since), about.program, last)
    return safe_row(row)


def as_json(jobs: Sequence[tuple[JobFolder, JobState]], damaged: Sequence[DamagedFolder]) -> str:
    """Return them as JSON."""
    fields: EndedJson = {
        "ended": [_fields(one, state) for one, state in jobs],
        "damaged": [{"job_id": one.job_id, "reason": one.why} for one in damaged],
    }
    return json.dumps(versioned("jobs", fields))


def _fields(one: JobFolder, state: JobState) -> EndedJobJson:
    about, end = one.about, one.ending
    return {
        "job_id": about.job_id,
        "state": state,
        "exit_code": None if end is None else end.code,
        "since": about.since,
        "ended": None if end is None else end.at,
        "machine": about.process.machine,
        "program": about.program,
        "workdir": about.workdir,
        "launcher": about.launcher,
        "hold": about.hold,
        "last": "" if end is None else end.last,
        "damage": one.damage,
    }


def forget(words: Sequence[str], *, everything: bool) -> tuple[str, str]:
    """Remove the records of one or all ended jobs; return the name and the action.

    Raises:
        UsageError: there is no such job, or it is running.
    """
    if everything and words:
        raise UsageError("dsrun-job forget: expected a job or --all, not both")
    if not everything and not words:
        raise UsageError("dsrun-job forget: expected a job, or --all for all that have ended")
    if everything:
        gone = [one for one, state in ended() if state not in MAY_RUN]
        for one in gone:
            _remove(one.path)
        return "", f"{counted(len(gone), 'job')} forgotten"
    try:
        found = job_kept.find(words)
    except job_kept.DamagedJob as job:
        _remove(job.folder.path)
        return job.folder.job_id, "forgotten"
    if found.folder is None or found.folder.state is JobState.RUNS:
        raise UsageError(f"dsrun-job forget: {found.place.name} is running")
    _remove(found.folder.path)
    return found.place.name, "forgotten"


def _remove(path: str) -> None:
    """Remove a folder.

    Raises:
        UsageError: a part of the folder is left.
    """
    remove(path)
    if os.path.lexists(path):
        raise UsageError(f"dsrun-job forget: {path} could not be removed; check what is in it")


def show(*, as_lines: bool, width: int) -> None:
    """Print the list."""
    jobs, damaged = ended(), job_kept.damaged()
    entry.write(as_table(jobs, damaged, width) if as_lines else f"{as_json(jobs, damaged)}\n")
