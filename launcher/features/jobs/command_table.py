"""The list of jobs and holds as a table of plain text. Pure."""

from __future__ import annotations

from ...common.records import NamedTuple
from ...common.text import plain
from ...common.wording import counted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..hold.runner_json_types import HoldJson
    from .command_read import Unread
    from .status import JobStatus

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
