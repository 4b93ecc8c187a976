"""The report of a job in words. Pure."""

from __future__ import annotations

import signal

from ...common.text import plain
from ...common.wording import counted
from .report import Loss, WorkerFailure, duration, signal_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from .report import JobReport

TAIL_LINES = 20

BESIDE = {".err": ".out", "/stderr.log": "stdout.log"}
"""The name of the log of standard output, by the ending of the name of standard error's."""


def _shows_nothing(lines: list[str]) -> bool:
    """Return False: nobody sees these lines."""
    return not lines


def words(report: JobReport, still_shown: Callable[[list[str]], bool] = _shows_nothing) -> str:
    """Return the report as text; "" for a job that ended well.

    Lines that the screen already shows, according to `still_shown`, are omitted.
    """
    head = _headline(report)
    found = [line for one in report.sections for line in one.text(report, head[0])] if head else []
    lines = [*head, *found, *_details(report, still_shown)]
    if report.no_requeue_code:
        code = report.no_requeue_code
        lines.append(f"  it would fail again: exit code {code} (--no_requeue_code)")
    lines += [f"  could not be stopped: {text}" for text in report.left]
    lines += [f"  {text}" for text in report.unseen]
    return "\n".join(lines)


def done(report: JobReport) -> str:
    """Return a line about a job that ended well."""
    hosts = "" if report.losses else f" on {counted(len(report.hosts), 'host')}"
    return f"done {_after(report, report.ended)}: {counted(report.world_size, 'worker')}{hosts}"


def _headline(report: JobReport) -> list[str]:
    ago = _after(report, report.ended)
    if report.stop_signal:
        name = report.stop_reason or signal.Signals(report.stop_signal).name
        if report.stopped:
            number = counted(report.stopped, "rank")
            return [f"dsrun: stopped by {name} {ago}: {number} told to stop"]
        seen = report.done or report.failures or report.losses or report.unseen
        return [f"dsrun: stopped by {name} {ago}{'' if seen else ', before any rank had started'}"]
    if report.broken_pipe:
        return []
    cause = report.cause
    if cause is None:
        return []
    ago = _after(report, cause.at)
    if isinstance(cause, Loss):
        what = cause.words or f"lost {cause.host}"
        return [f"dsrun: {what} {ago}: {cause.reason}{_others(report)}"]
    pid = f", pid {cause.pid}" if cause.pid else ""
    where = f"rank {cause.rank} ({cause.host}, local rank {cause.local_rank}{pid})"
    end = f"{_how_ended(cause)} {ago}" if pid else f"was {cause.hint}"
    return [f"dsrun: {where} {end}{_others(report)}"]


def _after(report: JobReport, at: float) -> str:
    again = f"{counted(report.restarts, 'restart')} and " if report.restarts else ""
    return f"after {again}{duration(at - report.began)}"


def _how_ended(failure: WorkerFailure) -> str:
    """Return the end of a worker, as a verb."""
    hint = f" ({failure.hint})" if failure.hint else ""
    if failure.code >= 0:
        return f"exited with code {failure.code}{hint}"
    number = -failure.code
    return f"was killed by {signal_name(number)} (signal {number}){hint}"


def _others(report: JobReport) -> str:
    also = len(report.failures) - isinstance(report.cause, WorkerFailure)
    parts = [f"{counted(also, 'other rank')} failed later"] if also > 0 else []
    whole = isinstance(report.cause, Loss) and not report.cause.host
    ranks = counted(report.stopped, "rank" if whole else "other rank")
    parts += [f"{ranks} stopped"] if report.stopped else []
    return f"; {', '.join(parts)}" if parts else ""


def _details(report: JobReport, still_shown: Callable[[list[str]], bool]) -> list[str]:
    failure = report.cause
    if not isinstance(failure, WorkerFailure) or report.stop_signal or report.broken_pipe:
        return []
    if not failure.pid:
        return []
    lines = [*_recorded(failure), *_tail(failure, still_shown)]
    if failure.log:
        also = [f" (and {out})" for end, out in BESIDE.items() if failure.log.endswith(end)]
        lines.append(f"  its log: {failure.host}:{plain(failure.log)}{''.join(also)}")
    cores = (text.partition(": ") for text in failure.evidence)
    lines += [
        f"  its core dump: {failure.host}:{plain(at)}" for kind, _, at in cores if kind == "core"
    ]
    found = report.explanation
    return [*lines, *(f"  {text}" for text in (found.lines if found else ()))]


def _recorded(failure: WorkerFailure) -> list[str]:
    """Return the lines of the recorded exception, unless the last output has them."""
    if not failure.message or failure.message.split("\n")[0] in failure.stderr:
        return []
    text = failure.traceback if failure.traceback.strip() else failure.message
    lines = [plain(line) for line in text.rstrip().split("\n")[-TAIL_LINES:]]
    return ["  the exception recorded by @record:", *(f"    {line}" for line in lines)]


def _tail(failure: WorkerFailure, still_shown: Callable[[list[str]], bool]) -> list[str]:
    name, text = ("error", failure.stderr) if failure.stderr.strip() else ("output", failure.stdout)
    # Of a progress bar, show only the last state.
    lines = [line.rstrip("\r").rpartition("\r")[2] for line in text.rstrip().split("\n")]
    last = [plain(line) for line in lines[-TAIL_LINES:] if text.strip()]
    if not last:
        return ["  it printed nothing"]
    if still_shown(last):
        return [f"  the end of its standard {name} is above"]
    return [f"  the end of its standard {name}:", *(f"    {line}" for line in last)]
