"""Reads the status of running jobs and holds, all at once."""

from __future__ import annotations

import json
import time
from contextlib import suppress

from ...common.errors import DsrunError
from ...common.formats import versioned
from ...common.poll import ready
from ...common.records import NamedTuple
from ...common.text import plain
from ...common.wording import counted
from ...control import frames, local
from ...control.frames import BadFrame
from ...control.local_client import connect
from ...specs.field_types import Misfit, reader
from .command_names import NamedSocket
from .runner_job_status import from_answer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ...control.local_client import LocalClient, Message
    from ..hold.runner_json_types import HoldJson
    from .json_types import JobJson, JobsJson
    from .runner_job_status import JobStatus

PATIENCE = 2.0
"""Seconds for all to answer; a suspended one does not answer."""


class Unread(NamedTuple):
    """A job or hold whose answer is in another form.

    Attributes:
        name: its name.
        version: the version of its dsrun, "" if unknown.
    """

    name: str
    version: str


class KnownJobs(NamedTuple):
    """The known jobs and holds.

    Attributes:
        jobs: the jobs that have answered, without their ranks.
        holds: the answers of the holds about themselves.
        silent: the names of jobs and holds that have not answered.
        unread: those with answers that this dsrun cannot read, with their version.
    """

    jobs: tuple[JobStatus, ...]
    holds: tuple[HoldJson, ...]
    silent: tuple[str, ...]
    unread: tuple[Unread, ...] = ()


def read(places: Iterable[NamedSocket], patience: float = PATIENCE) -> KnownJobs:
    """Ask jobs and holds for their status; omit those that end in the meantime."""
    clients = {place: client for place in places if (client := _asked(place)) is not None}
    try:
        answers = _answers(clients, time.monotonic() + patience)
    finally:
        for client in clients.values():
            client.close()
    jobs, holds, unread = [], [], []
    for place, answer in answers.items():
        try:
            if place.kind == local.JOB:
                jobs.append(from_answer(answer))
            else:
                holds.append(_hold(answer))
        except (BadFrame, KeyError):
            if answer:
                unread.append(Unread(place.name, _version(answer)))
    silent = tuple(place.name for place in clients if place not in answers)
    return KnownJobs(tuple(jobs), tuple(holds), silent, tuple(unread))


def _version(answer: Message) -> str:
    version = answer.get("version")
    return version[:40] if isinstance(version, str) else ""


def _asked(place: NamedSocket) -> LocalClient | None:
    """Return a connection on which the status was asked for; None if it has ended."""
    client = connect(place.kind, place.name)
    if client is not None:
        with suppress(DsrunError):
            client.send({"do": "status"})
            return client
        client.close()
    return None


def _answers(
    clients: dict[NamedSocket, LocalClient], deadline: float
) -> dict[NamedSocket, Message]:
    """Return the answers that arrive in time; {} of those that end without one, or refuse."""
    answers: dict[NamedSocket, Message] = {}
    waiting = {client.fileno(): place for place, client in clients.items()}
    while waiting and (left := deadline - time.monotonic()) > 0:
        for fd in ready(waiting, left):
            place = waiting[fd]
            try:
                arrived = clients[place].receive()
            except DsrunError:
                arrived = None
            found = [one.message for one in arrived or () if one.kind == frames.ANSWER]
            if found or arrived is None:
                answers[place] = found[0] if found else {}
                del waiting[fd]
    return answers


def _hold(answer: Message) -> HoldJson:
    """Return the displayed fields of a hold, whose version may differ.

    Raises:
        KeyError: the answer lacks a field.
        BadFrame: a value has another type.
    """
    for name, hint in _HOLD.items():
        try:
            reader(hint)(answer[name])
        except Misfit as misfit:
            raise BadFrame(f"{misfit.within(name)}") from None
    if not all(map(_is_host, _list(answer["hosts"]))):
        raise BadFrame("hosts: expected hosts with slots")
    _list(answer["runs"])
    return {
        "name": answer["name"],
        "version": answer["version"],
        "since": answer["since"],
        "state": answer["state"],
        "launcher": answer["launcher"],
        "hosts": answer["hosts"],
        "runs": answer["runs"],
        "last": answer["last"],
    }


_HOLD = {**dict.fromkeys(("name", "version", "state", "launcher", "last"), "str"), "since": "float"}


def _list(value: object) -> list[object]:
    if not isinstance(value, list):
        raise BadFrame("expected a list")
    return value


def _is_host(one: object) -> bool:
    return isinstance(one, dict) and isinstance(one.get("slots"), list) and "state" in one


def newest(places: Iterable[NamedSocket]) -> NamedSocket | None:
    """Return the job that was started last; None if none answers."""
    known = max(read(places).jobs, key=lambda one: one.since, default=None)
    return None if known is None else NamedSocket(local.JOB, known.job_id)


def running_programs(places: Iterable[NamedSocket]) -> dict[str, str]:
    """Return the programs of running jobs with their arguments, by the names of the jobs."""
    return {one.job_id: one.program for one in read(places).jobs}


def as_json(known: KnownJobs) -> str:
    """Return jobs and holds as JSON; without ranks, which were not asked for."""
    fields: JobsJson = {
        "jobs": [job_fields(one) for one in known.jobs],
        "holds": known.holds,
        "silent": known.silent,
        "unread": known.unread,
    }
    return json.dumps(versioned("jobs", fields))


def job_fields(status: JobStatus) -> JobJson:
    """Return a job without its ranks."""
    return {
        "version": status.version,
        "job_id": status.job_id,
        "pid": status.pid,
        "state": status.state,
        "since": status.since,
        "program": status.program,
        "workdir": status.workdir,
        "launcher": status.launcher,
        "elastic": status.elastic,
        "round": status.round,
        "restarts": status.restarts,
        "world_size": status.world_size,
        "running": status.running,
        "nodes": status.nodes,
        "last": status.last,
        "last_rank": status.last_rank,
    }


HEADINGS = ("NAME", "STATE", "NODES", "RANKS", "SINCE", "PROGRAM", "LAST LINE")
NUMBERS = {2, 3, 4}
"""Columns that are aligned to the right."""

PROGRAM = 32
"""Characters of the program at most, if the width is bounded."""


class JobRow(NamedTuple):
    """One line of the table."""

    name: str
    state: str
    nodes: str
    ranks: str
    since: str
    program: str
    last: str


def of_job(job: JobStatus, now: float) -> JobRow:
    """Return the line of a job; `now` is in seconds since 1970."""
    lost = sum(node.state == "lost" for node in job.nodes)
    nodes = f"{len(job.nodes) - lost}/{len(job.nodes)}" if lost else str(len(job.nodes))
    size = job.world_size or "?"
    ranks = str(size) if job.running == size else f"{job.running}/{size}"
    state = f"{job.state}, round {job.round}" if job.round else job.state
    last = f"{job.last_rank}| {job.last}" if job.last else ""
    return safe_row(
        JobRow(job.job_id, state, nodes, ranks, age(now - job.since), job.program, last)
    )


def of_hold(hold: HoldJson, now: float) -> JobRow:
    """Return the line of a hold, as it describes itself."""
    hosts, runs = list(hold["hosts"]), list(hold["runs"])
    lost = sum(one["state"] == "lost" for one in hosts)
    nodes = f"{len(hosts) - lost}/{len(hosts)}" if lost else str(len(hosts))
    slots = sum(len(one["slots"]) for one in hosts)
    what = f"hold with {counted(len(runs), 'run')}"
    since = age(now - float(hold["since"]))
    state, last = str(hold["state"]), str(hold["last"])
    return safe_row(JobRow(str(hold["name"]), state, nodes, str(slots), since, what, last))


def of_silent(name: str) -> JobRow:
    """Return the line of a job or hold that does not answer."""
    return safe_row(JobRow(name, "no answer", "", "", "", "", ""))


def of_unread(one: Unread) -> JobRow:
    """Return the line of a job or hold whose answer is in another form."""
    state = f"of dsrun {one.version}" if one.version else "unreadable"
    last = "" if one.version else "its answer is in a different format from this dsrun's"
    return safe_row(JobRow(one.name, state, "", "", "", "", last))


def safe_row(row: JobRow) -> JobRow:
    """Return a row without characters that could harm a terminal, or break the line."""
    return JobRow(*(plain(cell).replace("\n", " ").replace("\t", " ") for cell in row))


def table(rows: Sequence[JobRow], width: int = 0) -> str:
    """Return the table; a width cuts its lines."""
    program = PROGRAM if width else 1 << 20
    rows = [row._replace(program=_cut(row.program, program)) for row in rows]
    cells = [JobRow(*HEADINGS), *rows]
    widths = [max(len(row[at]) for row in cells) for at in range(len(HEADINGS))]
    lines = ("  ".join(_padded(row, widths)).rstrip() for row in cells)
    return "".join(f"{_cut(line, width) if width else line}\n" for line in lines)


def _padded(row: JobRow, widths: Sequence[int]) -> list[str]:
    return [
        f"{cell:>{widths[at]}}" if at in NUMBERS else f"{cell:<{widths[at]}}"
        for at, cell in enumerate(row)
    ]


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else f"{text[: width - 1]}…"


def age(seconds: float) -> str:
    """Return a time in its two largest units: 45s, 12m08s, 3h05m, 2d04h."""
    whole = max(0, int(seconds))
    for size, unit, part, smaller in (
        (86400, "d", 3600, "h"),
        (3600, "h", 60, "m"),
        (60, "m", 1, "s"),
    ):
        if whole >= size:
            return f"{whole // size}{unit}{whole % size // part:02}{smaller}"
    return f"{whole}s"
