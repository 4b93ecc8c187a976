"""The text above a picture: how the job does or has ended, each sentence once. Pure."""

from __future__ import annotations

from ...common.records import NamedTuple
from ...common.text import plain
from ...common.wording import counted
from ...head.report.report import duration

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping


class Headline(NamedTuple):
    """The lines above a picture.

    Attributes:
        title: how the job does or has ended, in one line.
        lines: when that was, and why, as far as the box does not say it.
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
