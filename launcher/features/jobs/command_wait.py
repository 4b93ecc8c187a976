"""`dsrun-job wait JOB`: waits for the end of a job, and exits like its dsrun."""

from __future__ import annotations

import json
import os
import sys
import time
from contextlib import suppress

from ...common import entry
from ...common.errors import DsrunError, LostError, UsageError
from ...common.formats import versioned
from ...common.text import plain, read_json
from ...control import frames, local
from ...control.local_client import checked
from ..detached.runner_job_folder import JobState, KeptEnd
from .command_kept import killed, without_end
from .command_names import LOOK, named_in_errors, open_place

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ...control.local_client import LocalClient
    from ..detached.runner_job_folder import JobFolder
    from .command_kept import KeptJob
    from .command_names import NamedSocket
    from .json_types import ReportJson

MOMENT = 5.0
"""Seconds for a job to write how it has ended."""


def wait(found: KeptJob, *, as_json: bool) -> int:
    """Wait, print the report as in a terminal, and return the job's exit code.

    Raises:
        UsageError: this is a hold, or the job has ended meanwhile.
        DsrunError: the job has ended without a record.
    """
    place = found.place
    if place.kind == local.HOLD:
        raise UsageError(f"dsrun-job wait: {place.name} is a hold; name one of its jobs")
    end = until_told(place) if found.folder is None else until_end(found.folder)
    if as_json:
        fields: ReportJson = {
            "job_id": place.name,
            "state": JobState.ENDED,
            "text": end.text,
            "report": end.report,
        }
        entry.write(f"{json.dumps(versioned('jobs', fields))}\n")
    else:
        show(end)
    return end.code


def show(end: KeptEnd) -> None:
    """Print the report of a job on standard error."""
    lines = [plain(line) for line in (end.text, end.loss) if line]
    with suppress(OSError):
        sys.stderr.write("".join(f"{line}\n" for line in lines))
        sys.stderr.flush()


def settled(folder: JobFolder) -> JobFolder:
    """Return the folder of a job that takes no requests, once its ending is recorded.

    That takes a moment; for a job that only starts, the wait is short.
    """
    with suppress(DsrunError, TimeoutError):
        until_end(folder, MOMENT)
    return folder.now


def until_end(folder: JobFolder, seconds: float | None = None) -> KeptEnd:
    """Wait for the end of a job.

    Raises:
        DsrunError: the job has ended without a record.
        TimeoutError: the job has not ended in time.
    """
    deadline = None if seconds is None else time.monotonic() + seconds
    while (end := folder.ending) is None:
        now = folder.now
        if now.state in {JobState.KILLED, JobState.UNKNOWN, JobState.DAMAGED}:
            raise without_end(now, now.state)
        if deadline is not None and time.monotonic() >= deadline:
            raise TimeoutError(f"job {folder.about.job_id} has not ended within {seconds:g} s")
        time.sleep(LOOK)
    return end


def until_told(place: NamedSocket) -> KeptEnd:
    """Wait until a running job reports its ending.

    Raises:
        UsageError: the job has just ended.
        LostError: the job's process was killed.
    """
    while True:
        with open_place(place) as client:
            end = _told(client, place)
        if end is not None:
            return end
        time.sleep(LOOK)  # it has too many callers now, or ends


def _told(client: LocalClient, place: NamedSocket) -> KeptEnd | None:
    """Return a job's report of its ending; None if it has not accepted the request.

    Raises:
        LostError: the job was killed.
    """
    with open(os.memfd_create("report"), "w+b") as file:
        waits, answer = _answer(client, file.fileno())
        if answer is not None:
            with named_in_errors(place):
                code = int(checked(answer)["code"])
            file.seek(0)
            text, report = _report(file.read(), place)
            return KeptEnd(time.time(), code, text, report, last="", unkept="")
    if waits:
        process = f"pid {client.pid} on {os.uname().nodename}"
        raise killed(place.name, f"the process that ran it ({process}) was killed")
    return None


def _report(data: bytes, place: NamedSocket) -> tuple[str, dict[str, Any]]:
    """Return the report written by a job, in words and as JSON.

    Raises:
        LostError: the job has written something else.
    """
    with suppress(ValueError):
        match read_json(data):
            case {"text": str(text), "report": dict(report)}:
                return text, report
    raise LostError(f"dsrun-job: job {place.name}: its report is not valid")


def _answer(client: LocalClient, file: int) -> tuple[bool, dict[str, Any] | None]:
    """Return whether a job has taken the request, and its answer; None if the job is gone."""
    waits = False
    with suppress(LostError):
        number = client.send({"do": "wait"}, [file])
        for one in client.frames():
            waits = waits or one.message.get("event") == "Waiting"
            if one.kind == frames.ANSWER and one.message.get("id") == number:
                return waits, one.message
    return waits, None
