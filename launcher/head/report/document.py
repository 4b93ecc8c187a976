"""The report of a job as JSON, for `--report_file`. Pure."""

from __future__ import annotations

import json

from ...common.errors import INTERNAL, NO_PROGRESS
from ...common.records import NamedTuple
from ...common.text import plain
from .report import Loss, signal_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from ...common.json_types import ExitCode, Natural
    from . import report as job
    from .json_types import Cause, Crashed, Python, StartedJobJson, VerdictJson


class Failure(NamedTuple):
    """A rank that failed by itself.

    Attributes:
        rank: its rank in the job.
        local_rank: its rank on its node.
        host: the name of the rank's host.
        pid: its process id on that host; 0 if it could not be started.
        code: its exit code; None if a signal ended it.
        signal: the name of that signal, such as SIGKILL; None if it exited.
        exit_code: the code as a shell shows it: `code`, or 128 + the number of the signal.
        after_seconds: the time of its end, in seconds since the start of the job, with clock
            differences between the nodes removed.
        hint: the cause as far as the node knows it, in words, such as the kernel's out-of-memory
            killer, or "".
        stderr: the end of its standard error, at most 16 KiB.
        stdout: the end of its standard output, at most 16 KiB.
        message: the message of its exception, if torch's `record` saved one, or "".
        traceback: the traceback of that exception, or "".
        log: the path of the log file of its standard error on its host, or "".
        evidence: findings of the node after the rank's end, each with its kind, such as "disk: /tmp
            (tmpfs) is full". Kinds: memory, shm, small, xid, crash, core, disk, port.
    """

    rank: Natural
    local_rank: Natural
    host: str
    pid: Natural
    code: Natural | None
    signal: str | None
    exit_code: ExitCode
    after_seconds: float
    hint: str
    stderr: str
    stdout: str
    message: str
    traceback: str
    log: str
    evidence: tuple[str, ...] = ()


def fields(report: job.JobReport) -> dict[str, object]:
    """Return the report for --report_file, with its sections."""
    made: dict[str, object] = {**_fields(report)}
    for section in report.sections:
        made.update(section.json(report))
    return made


def _fields(report: job.JobReport) -> StartedJobJson:
    order = sorted(report.failures, key=lambda failure: failure.at)
    failures = [_failure(one, report) for one in order]
    return {
        "job_id": report.job_id,
        "exit_code": report.exit_code,
        "seconds": round(report.ended - report.began, 3),
        "world_size": report.world_size,
        "hosts": report.hosts,
        "pythons": [_python(report, *one) for one in report.pythons],
        "cause": _cause(report),
        "first_failure": failures[0] if failures else None,
        "failures": failures,
        "lost": [{"host": loss.host, "reason": loss.reason} for loss in report.losses],
        "stopped": report.stopped,
        "signal": report.stop_signal or None,
        "left": report.left,
        "unseen": report.unseen,
        "verdict": _verdict(report) if report.exit_code else None,
    }


def _python(report: job.JobReport, host: str, path: str) -> Python:
    return {"host": host, "path": path, "origin": report.python_origin}


def as_text(report: Mapping[str, object]) -> str:
    """Return a report in JSON as text."""
    return json.dumps(report, indent=2) + "\n"


def crash_fields(job_id: str, error: Exception) -> Crashed:
    """Return the report of a job that ended because of an internal error of dsrun."""
    text = f"{type(error).__name__}: {error}"
    return {
        "job_id": job_id,
        "exit_code": INTERNAL,
        "cause": "internal error",
        "error": plain(text.replace("\n", " ")),
    }


def _verdict(report: job.JobReport) -> VerdictJson:
    from ...specs.verdict import Explanation

    verdict = (report.explanation or Explanation()).verdict
    return {
        "class": verdict.kind,
        "retry": verdict.retry,
        "sentence": verdict.sentence,
        "advice": verdict.advice,
    }


def _cause(report: job.JobReport) -> Cause:
    if report.stop_signal:
        return "signal"
    if report.broken_pipe:
        return "broken pipe"
    if not isinstance(report.cause, Loss):
        return "failure" if report.cause else "none"
    return "no progress" if report.cause.code == NO_PROGRESS else "lost"


def _failure(failure: job.WorkerFailure, report: job.JobReport) -> Failure:
    return Failure(
        rank=failure.rank,
        local_rank=failure.local_rank,
        host=failure.host,
        pid=failure.pid,
        code=failure.code if failure.code >= 0 else None,
        signal=signal_name(-failure.code) if failure.code < 0 else None,
        exit_code=failure.exit_code,
        after_seconds=round(failure.at - report.began, 3),
        hint=failure.hint,
        stderr=failure.stderr,
        stdout=failure.stdout,
        message=failure.message,
        traceback=failure.traceback,
        log=failure.log,
        evidence=failure.evidence,
    )
