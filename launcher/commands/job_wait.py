"""`dsrun-job wait JOB`: waits for the end of a detached job, and ends as its dsrun would have."""

from __future__ import annotations

import json
import sys
import time
from contextlib import suppress

from ..common import entry
from ..common.errors import DsrunError, UsageError
from ..common.formats import versioned
from ..common.text import plain
from ..head.detached.job_folder import State
from .job_kept import without_end

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..head.detached.job_folder import End, JobFolder
    from .job_kept import Found
    from .json_types.jobs import Report

MOMENT = 5.0
"""Seconds for a job to write how it has ended."""

LOOK = 0.1
"""Seconds between two looks for the end of a job."""


def wait(found: Found, *, as_json: bool) -> int:
    """Wait, print the report as a terminal would have shown it, and return the job's exit code.

    Raises:
        UsageError: the job is not detached.
        DsrunError: it has ended, but nobody knows how.
    """
    folder = found.folder
    if folder is None:
        raise UsageError(
            f"dsrun-job wait: {found.place.kind} {found.place.name} was not started with --detach:"
            " its terminal shows how it ends"
        )
    end = until_end(folder)
    if as_json:
        fields: Report = {
            "job_id": folder.about.job_id,
            "state": State.ENDED,
            "text": end.text,
            "report": end.report,
        }
        entry.write(f"{json.dumps(versioned('jobs', fields))}\n")
    else:
        show(end)
    return end.code


def show(end: End) -> None:
    """Print the report of a job on standard error."""
    lines = [plain(end.text)] if end.text else []
    if end.unkept:
        lines.append(f"dsrun: some of its output could not be kept: {plain(end.unkept)}")
    with suppress(OSError):
        sys.stderr.write("".join(f"{line}\n" for line in lines))
        sys.stderr.flush()


def settled(folder: JobFolder) -> JobFolder:
    """Return a job's folder once it is written how the job, which takes no requests, has ended.

    That takes a moment; a job that is only starting is not waited for long.
    """
    with suppress(DsrunError, TimeoutError):
        until_end(folder, MOMENT)
    return folder.now


def until_end(folder: JobFolder, seconds: float | None = None) -> End:
    """Wait for the end of a job.

    Args:
        folder: of the job.
        seconds: to wait; None for no limit.

    Raises:
        DsrunError: it has ended, but nobody knows how.
        TimeoutError: it has not ended in time.
    """
    deadline = None if seconds is None else time.monotonic() + seconds
    while (end := folder.end) is None:
        now = folder.now
        if now.state in {State.KILLED, State.UNKNOWN}:
            raise without_end(now, now.state)
        if deadline is not None and time.monotonic() >= deadline:
            raise TimeoutError(f"job {folder.about.job_id} has not ended within {seconds:g} s")
        time.sleep(LOOK)
    return end
