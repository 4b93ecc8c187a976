"""The picture of a job as one HTML file, which needs no network and no other file. Pure.

Text from programs and hosts is data in it: a block of JSON that a browser does not run, shown as
text by a script. A content security policy allows this script and this style, by their hashes, and
nothing else.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import os
from functools import lru_cache

from ...common.records import NamedTuple
from ...common.text import plain
from ...common.wording import counted
from ...head.report.report import duration
from .runner_about import PictureHead
from .runner_goodput import seconds_by_cause

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from .runner_roles_timeline import RolesTimeline
    from .runner_timeline import Timeline, WorkerSpan

    AnyTimeline = Timeline | RolesTimeline

VERSION = 2
"""The version of the data in a page."""

MOST = 5_000_000
"""Bytes that a page may have."""

UNKNOWN = PictureHead()
"""The head for a job without any information."""

_MARKED = {
    code: f"\\u{code:04x}"
    for code in (*map(ord, "<>&"), *range(127, 160), *range(0x2028, 0x202F), *range(0x2066, 0x206A))
}
"""JSON for what ends an element or a line of a script, and for what changes how text is shown."""

_FRAME = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src '{style_hash}'; \
script-src '{script_hash}'; base-uri 'none'; form-action 'none'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="referrer" content="no-referrer">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
<noscript>This page needs JavaScript; it loads nothing from a network.</noscript>
<main id="page"></main>
<script type="application/json" id="data">{data}</script>
<script>{script}</script>
</body>
</html>
"""


def page(
    report: Mapping[str, object], text: str, timeline: AnyTimeline, about: PictureHead = UNKNOWN
) -> str:
    """Return the page of a job.

    Args:
        report: as for --report_file.
        text: the report in words, "" for a job that ended well or still runs.
        timeline: the events of the job.
        about: the description of the job.
    """
    keep = max(timeline.keep, 1)
    while len((made := _page(report, text, timeline, about, keep)).encode()) > MOST and keep:
        keep //= 2
    return made


def _page(
    report: Mapping[str, object], text: str, timeline: AnyTimeline, about: PictureHead, keep: int
) -> str:
    data = {**_data(report, text, timeline, keep), "about": about.facts}
    style, script = _asset("page.css"), _asset("page.js")
    return _FRAME.format(
        style_hash=_hash(style),
        script_hash=_hash(script),
        style=style,
        script=script,
        title=_escaped(f"dsrun job {report.get('job_id', '')}"),
        data=_embedded(data),
    )


def _data(
    report: Mapping[str, object], text: str, timeline: AnyTimeline, keep: int
) -> dict[str, object]:
    """Return the data that the page shows, as JSON values."""
    numbers = {host: number for number, host in enumerate(timeline.hosts)}
    marks, ended = timeline.all_marks, timeline.now
    spans = _served(timeline) if report.get("exit_code") == 0 else timeline.all_spans
    ranks = sorted({span.rank for span in spans})
    return {
        "version": VERSION,
        "report": report,
        **headline(report, text, timeline.round, timeline.restarts)._asdict(),
        "findings": [plain(line) for line in timeline.findings],
        "seconds": ended,
        "hosts": [plain(host) for host in numbers],
        "dropped": timeline.dropped,
        "counts": timeline.counts | _rounds(timeline),
        "numbers": {rank: own for rank in ranks if (own := timeline.number(rank)) != rank},
        "goodput": seconds_by_cause(timeline.working_spans, marks, timeline.world_size, ended),
        "spans": [
            [
                *(one.rank, numbers[one.host], one.round, one.began, one.ended, one.state),
                plain(one.words),
            ]
            for one in spans
        ],
        "marks": [
            [one.at, one.kind, plain(one.words), numbers.get(one.host), one.rank, one.until]
            for one in marks
        ],
        "tails": {str(rank): _tail(timeline, rank, keep) for rank in ranks},
    }


def _rounds(timeline: AnyTimeline) -> dict[str, int]:
    found = {"rounds": timeline.round, "restarts": timeline.restarts}
    return {name: count for name, count in found.items() if count}


def _tail(timeline: AnyTimeline, rank: int, keep: int) -> list[tuple[str, str]]:
    """Return the latest output of a rank, as the name and the text of each of its lives."""
    return [(life, plain(text[-keep:])) for life, text in timeline.tail(rank)] if keep else []


def _served(timeline: AnyTimeline) -> list[WorkerSpan]:
    """Return the lives of workers in a job that ended well: services were stopped at its end."""
    spans = timeline.all_spans
    last = {one.rank: one for one in spans}
    return [
        one._replace(state="served", words="served until the end")
        if one.state == "stopped" and one is last[one.rank] and timeline.serves(one.rank)
        else one
        for one in spans
    ]


def _embedded(data: object) -> str:
    """Return JSON that may stand in an HTML element: nothing in it ends a script or a comment."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    return text.translate(_MARKED).encode("utf-8", "replace").decode()


def _escaped(text: str) -> str:
    return html.escape(plain(text), quote=False)


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return f"sha256-{base64.b64encode(digest).decode()}"


@lru_cache
def _asset(name: str) -> str:
    path = os.path.join(os.path.dirname(__file__), name)
    with open(path, encoding="utf-8") as file:
        return file.read()


class Headline(NamedTuple):
    """The lines above a picture.

    Attributes:
        title: the state or the end of the job, in one line.
        lines: its time and reason, as far as the box does not tell these.
        box: the rest of the report in words.
    """

    title: str
    lines: tuple[str, ...]
    box: str


def headline(report: Mapping[str, object], text: str, rounds: int, restarts: int) -> Headline:
    """Return the text above the picture of a job.

    Args:
        report: the report as for --report_file.
        text: the report in words, "" for a job that ended well or still runs.
        rounds: the number of the latest round, 0 without rounds.
        restarts: the number of restarts of workers after failures.
    """
    title, _, box = plain(text).partition("\n")
    verdict = report.get("verdict")
    told = verdict if isinstance(verdict, dict) else {}
    why = [plain(str(told[name])) for name in ("sentence", "advice") if told.get(name)]
    lines = [line for line in why if line not in title and line not in box]
    if not title:
        running = report.get("exit_code") is None
        title = f"dsrun: the job {'is running' if running else 'succeeded'}"
    if when := _when(report, title, rounds, restarts):
        lines.insert(0, when)
    return Headline(title, tuple(lines), box)


def _when(report: Mapping[str, object], title: str, rounds: int, restarts: int) -> str:
    """Return when the job failed, or one of its roles, and how long it lasted; "" if none did."""
    first, seconds = report.get("first_failure"), report.get("seconds")
    at = first.get("after_seconds") if isinstance(first, dict) else None
    if not report.get("exit_code") or not isinstance(seconds, float) or not isinstance(at, float):
        return ""
    if role := report.get("role"):  # its time is that of its own start
        failed = f"{plain(str(role))} failed {duration(at)} after it started"
        return f"{failed}, and the job lasted {duration(seconds)} in all"
    words = f"the job failed {duration(at)} after it started"
    if rounds:
        words += f", in round {rounds}"
    if restarts and "restart" not in title:
        words += f", after {counted(restarts, 'restart')}"
    return f"{words}, and lasted {duration(seconds)} in all"
