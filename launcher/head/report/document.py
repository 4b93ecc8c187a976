"""The report of a job for others: JSON in `--report_file`, values for programs. Pure."""

from __future__ import annotations

import json

from ...common.errors import INTERNAL, NO_PROGRESS
from ...common.text import plain
from ...common.values import NamedTuple
from .report import Loss, signal_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from . import report as job


class Failure(NamedTuple):
    """A rank that has failed by itself.

    Attributes:
        code: its exit code, None if a signal has ended it.
        signal: the name of that signal, or None.
        exit_code: the code as a shell shows it.
        after_seconds: from the start of the job.
        hint: what its node knows about the cause, in words, or "".
        stderr: the end of its standard error; `stdout` likewise.
        message: its exception, if torch's `record` kept it; `traceback` likewise.
        log: its log file, "" for none.
        evidence: what its node has found after its end, each with its kind: `disk: ...`.
    """

    rank: int
    local_rank: int
    host: str
    pid: int
    code: int | None
    signal: str | None
    exit_code: int
    after_seconds: float
    hint: str
    stderr: str
    stdout: str
    message: str
    traceback: str
    log: str
    evidence: tuple[str, ...] = ()


class Report(NamedTuple):
    """How a job has ended: what `--report_file` of the command has.

    Attributes:
        exit_code: what the command would have exited with; 0 if all ranks have.
        cause: "none", "failure", "lost", "signal", "broken pipe" or "no progress".
        failures: the ranks that have failed by themselves, the first one first.
        lost: (host, reason) of each node that was lost; host "" for why dsrun ended the job.
        text: the report in words, as the command prints it; "" if there is nothing to report.
        data: the whole report as JSON values.
    """

    job_id: str
    exit_code: int
    cause: str
    seconds: float
    world_size: int
    hosts: tuple[str, ...]
    failures: tuple[Failure, ...]
    lost: tuple[tuple[str, str], ...]
    text: str
    data: Mapping[str, Any]


def read(data: Mapping[str, Any], text: str) -> Report:
    """Return the report that a runner has sent.

    Raises:
        KeyError, TypeError: it is not a report.
    """
    return Report(
        job_id=data["job_id"],
        exit_code=data["exit_code"],
        cause=data["cause"],
        seconds=data["seconds"],
        world_size=data["world_size"],
        hosts=tuple(data["hosts"]),
        failures=tuple(
            Failure(**{**one, "evidence": tuple(one["evidence"])}) for one in data["failures"]
        ),
        lost=tuple((one["host"], one["reason"]) for one in data["lost"]),
        text=text,
        data=data,
    )


def as_json(report: job.Report) -> dict[str, object]:
    """Return the report for --report_file."""
    order = sorted(report.failures, key=lambda failure: failure.at)
    failures = [_failure_json(one, report) for one in order]
    return {
        "job_id": report.job_id,
        "exit_code": report.exit_code,
        "seconds": round(report.ended - report.began, 3),
        "world_size": report.world_size,
        "hosts": list(report.hosts),
        "cause": _cause_json(report),
        "first_failure": failures[0] if failures else None,
        "failures": failures,
        "lost": [{"host": loss.host, "reason": loss.reason} for loss in report.losses],
        "stopped": report.stopped,
        "signal": report.stop_signal or None,
        "left": list(report.left),
        "unseen": list(report.unseen),
        "verdict": _verdict_json(report),
        **_found(report),
    }


def _found(report: job.Report) -> dict[str, object]:
    """Return what is in the report of few jobs."""
    found: dict[str, object] = {}
    if report.bound:
        from . import bindings

        found["bindings"] = bindings.as_json(report.bound)
    if report.hangs:
        from . import hangs

        found["hangs"] = hangs.as_json(report.hangs, report.began)
    if report.slow:
        from . import slow

        found["slow"] = slow.as_json(report.slow, report.began)
    return found


def as_text(report: Mapping[str, object]) -> str:
    """Return a report in JSON as text."""
    return json.dumps(report, indent=2) + "\n"


def crash_json(job_id: str, error: Exception) -> dict[str, object]:
    """Return the report for a job that ended because of an internal error of dsrun."""
    text = f"{type(error).__name__}: {error}"
    return {
        "job_id": job_id,
        "exit_code": INTERNAL,
        "cause": "internal error",
        "error": plain(text.replace("\n", " ")),
    }


def _verdict_json(report: job.Report) -> dict[str, str] | None:
    if not report.exit_code:
        return None
    from ...specs.verdict import Explanation

    verdict = (report.explanation or Explanation()).verdict
    return {
        "class": verdict.kind.value,
        "retry": verdict.retry.value,
        "sentence": verdict.sentence,
        "advice": verdict.advice,
    }


def _cause_json(report: job.Report) -> str:
    if report.stop_signal:
        return "signal"
    if report.broken_pipe:
        return "broken pipe"
    if not isinstance(report.cause, Loss):
        return "failure" if report.cause else "none"
    return "no progress" if report.cause.code == NO_PROGRESS else "lost"


def _failure(failure: job.Failure, report: job.Report) -> Failure:
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


def _failure_json(failure: job.Failure, report: job.Report) -> dict[str, object]:
    return {**_failure(failure, report)._asdict(), "evidence": list(failure.evidence)}
