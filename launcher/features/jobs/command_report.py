"""`dsrun-job report JOB`: the state or ending of a job, in words, as JSON, or as a picture."""

from __future__ import annotations

import json

from ...common import entry, output_file
from ...common.errors import LostError, OutputError, UsageError
from ...common.formats import versioned
from ...common.records import NamedTuple
from ...common.stderr import tell
from ...common.text import plain, read_json
from ...control import frames, local
from ...control.local_client import checked
from ...head.run import events
from ..detached import runner_journal as journal
from ..detached.runner_job_folder import Damage, JobState
from ..detached.runner_journal_reader import JournalReader
from ..picture.runner_about import PictureHead
from ..picture.runner_replay import Past, PrintedBlock, replay
from .command_kept import without_end
from .command_names import PATIENCE, named_in_errors, open_place
from .command_wait import settled

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any

    from ...control.local_client import ArrivedFrame, LocalClient
    from ...head.run.events import RunEvent
    from ..detached.runner_job_folder import JobFolder
    from . import json_types
    from .command_kept import KeptJob

    Happened = list[Past]


class RunningReport(NamedTuple):
    """The present state of a job.

    Attributes:
        state: whether it runs, or why its end is not known.
        text: the report in words.
        report: the report as in --report_file; None if unknown.
        seconds: the duration so far; 0 if unknown.
        happened: the events, with their times, if requested.
        roles: the effect of each role's clean end, by name; empty for one program.
        tails: the newest output, unless it is among the events.
        about: the description of the job, as far as known.
    """

    job_id: str
    state: JobState
    text: str
    report: dict[str, Any] | None
    seconds: float
    happened: Happened
    roles: Mapping[str, str]
    tails: Sequence[PrintedBlock] = ()
    about: PictureHead = PictureHead()


def show(found: KeptJob, *, as_json: bool, html: str) -> int:
    """Print the report of a job, or draw it into a file; return the exit code.

    Raises:
        UsageError: the file cannot be written, or this is a hold.
        DsrunError: the job does not answer.
    """
    if found.place.kind == local.HOLD:
        raise UsageError(f"dsrun-job report: {found.place.name} is a hold; name one of its jobs")
    if html:
        output_file.check("--html", html)
        output_file.check_replaceable("--html", html)
        entry.note(filter(None, [output_file.note("html", html)]))
    told = _ended(found.folder) if found.folder and not found.runs else _running(found, html)
    if html:
        _draw(told, html)
    if as_json:
        fields: json_types.ReportJson = {
            "job_id": told.job_id,
            "state": told.state,
            "text": told.text,
            "report": told.report,
        }
        entry.write(f"{json.dumps(versioned('jobs', fields))}\n")
    elif not html:
        entry.write(f"{plain(told.text)}\n")
    return 0


# -- where it comes from ----------------------------------------------------------------------


def _ended(folder: JobFolder) -> RunningReport:
    """Return the report of a detached job that does not run here."""
    folder = settled(folder) if folder.state is JobState.RUNS else folder
    about, end, state = folder.about, folder.ending, folder.state
    happened = _kept(folder)
    seconds = happened[-1][0] if happened else 0.0
    if end is None:
        words = (
            f"job {about.job_id} runs on {about.process.machine}; ask there"
            if state in {JobState.ELSEWHERE, JobState.RUNS}
            else str(without_end(folder, state))
        )
        text = f"dsrun: {words}"
    else:
        seconds = max(seconds, float(end.report.get("seconds") or 0.0))
        text = end.text or f"dsrun: job {about.job_id} has ended with exit code {end.code}"
        text += f"\n{end.loss}" if end.loss else ""
    return RunningReport(
        job_id=about.job_id,
        state=state,
        text=text,
        report=end.report if end is not None else None,
        seconds=seconds,
        happened=happened,
        roles=about.roles,
        about=_about(folder),
    )


def _about(folder: JobFolder) -> PictureHead:
    about = folder.about
    return PictureHead(about.program, about.version, about.since)


def _kept(folder: JobFolder) -> Happened:
    """Return the events in the journal of a job; none, with a line, if it cannot be read."""
    try:
        known = JournalReader(folder.journal).new()
    except Damage as damage:
        tell(f"job {folder.about.job_id}: {damage}; the report leaves it out", "dsrun-job")
        return []
    return [
        Past(entry.at, entry.role, event) for entry in known if (event := _event(entry)) is not None
    ]


def _event(kept: journal.JournalEntry) -> RunEvent | None:
    if kept.kind in journal.OUTPUT:
        return events.RankOutput(kept.rank, kept.host, kept.kind, kept.data)
    if kept.kind != journal.EVENT:
        return None
    try:
        fields = read_json(kept.data)
    except ValueError:
        return None
    return events.from_json(fields) if isinstance(fields, dict) else None


def _running(found: KeptJob, html: str) -> RunningReport:
    """Return the report of a running job: from the job, or, if detached, from its journal."""
    detached = found.folder
    with open_place(found.place) as client, named_in_errors(found.place):
        number = client.send({"do": "report", "events": bool(html) and detached is None})
        arrived = _until_answer(client, number)
        answer = checked(arrived.pop().message)
    happened = [_past(one.message) for one in arrived if one.message.get("event") == "past"]
    report, seconds, roles = (answer.get(name) for name in ("report", "seconds", "roles"))
    return RunningReport(
        job_id=found.place.name,
        state=JobState.RUNS,
        text=str(answer.get("text")),
        report=report if isinstance(report, dict) else None,
        seconds=seconds if isinstance(seconds, float) else 0.0,
        happened=_kept(detached) if detached else [one for one in happened if one is not None],
        roles=_words(roles),
        tails=list(_tails(arrived)),
        about=_about(detached) if detached else _told(answer.get("about")),
    )


def _told(about: object) -> PictureHead:
    """Return a job's own description, which may be of another version."""
    match about:
        case {"command": str(command), "version": str(version), "since": float(since)}:
            return PictureHead(command, version, since)
    return PictureHead()


def _words(roles: object) -> dict[str, str]:
    """Return the text values in an answer's mapping of roles."""
    return {str(name): str(ends) for name, ends in roles.items()} if isinstance(roles, dict) else {}


def _tails(arrived: Sequence[ArrivedFrame]) -> Iterator[PrintedBlock]:
    """Yield blocks of output; an event names the role of the following blocks."""
    role = ""
    for one in arrived:
        if one.message.get("event") == "role":
            role = str(one.message.get("role"))
        elif one.kind == frames.CHUNK:
            rank, _, data = frames.unpack_output(one.data)
            yield PrintedBlock(role, rank, data)


def _until_answer(client: LocalClient, number: int) -> list[ArrivedFrame]:
    """Return the frames up to the answer to a request, which is the last.

    Raises:
        LostError: there is no answer in time.
    """
    arrived = []
    for one in client.frames(PATIENCE):
        arrived.append(one)
        if one.kind == frames.ANSWER and one.message.get("id") == number:
            return arrived
    raise LostError("no answer: the job has ended")


def _past(message: dict[str, Any]) -> Past | None:
    at, fields = message.get("at"), message.get("of")
    event = events.from_json(fields) if isinstance(fields, dict) else None
    role = str(message.get("role") or "")
    return Past(at, role, event) if isinstance(at, float) and event is not None else None


# -- the picture --------------------------------------------------------------------------------


def _draw(told: RunningReport, path: str) -> None:
    """Draw a job into a file.

    Raises:
        OutputError: the file cannot be written.
    """
    from ...head.report import file
    from ..picture.runner_page import page

    timeline = replay(told.happened, told.seconds, told.roles, told.tails)
    problems: list[str] = []
    report = told.report or {"job_id": told.job_id, "exit_code": None}
    if not file.write(path, page(report, told.text, timeline, told.about), problems.append):
        raise OutputError(f"--html {path}: {', '.join(problems)}")
