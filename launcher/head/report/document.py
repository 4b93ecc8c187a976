"""The report of a job as JSON, for `--report_file`. Pure."""

from __future__ import annotations

from ...common.errors import INTERNAL, NO_PROGRESS
from ...common.text import plain
from . import bindings, hangs
from .report import Failure, Loss, signal_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .report import Report


def as_json(report: Report) -> dict[str, object]:
    """Return the report for --report_file."""
    cause = report.cause
    return {
        "job_id": report.job_id,
        "exit_code": report.exit_code,
        "seconds": round(report.ended - report.began, 3),
        "world_size": report.world_size,
        "hosts": list(report.hosts),
        "cause": _cause_json(report, cause),
        "first_failure": _failure_json(report.first, report) if report.first else None,
        "failures": [
            _failure_json(one, report) for one in sorted(report.failures, key=lambda f: f.at)
        ],
        "lost": [{"host": loss.host, "reason": loss.reason} for loss in report.losses],
        "stopped": report.stopped,
        "signal": report.stop_signal or None,
        "left": list(report.left),
        "unseen": list(report.unseen),
        "verdict": _verdict_json(report),
        **({"bindings": bindings.as_json(report.bound)} if report.bound else {}),
        **({"hangs": hangs.as_json(report.hangs, report.began)} if report.hangs else {}),
        **_slow_json(report),
    }


def _slow_json(report: Report) -> dict[str, object]:
    if not report.slow:
        return {}
    from . import slow

    return {"slow": slow.as_json(report.slow, report.began)}


def crash_json(job_id: str, error: Exception) -> dict[str, object]:
    """Return the report for a job that ended because of an internal error of dsrun."""
    text = f"{type(error).__name__}: {error}"
    return {
        "job_id": job_id,
        "exit_code": INTERNAL,
        "cause": "internal error",
        "error": plain(text.replace("\n", " ")),
    }


def _verdict_json(report: Report) -> dict[str, str] | None:
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


def _cause_json(report: Report, cause: Failure | Loss | None) -> str:
    if report.stop_signal:
        return "signal"
    if report.broken_pipe:
        return "broken pipe"
    if isinstance(cause, Loss) and cause.code == NO_PROGRESS:
        return "no progress"
    return {Failure: "failure", Loss: "lost"}.get(type(cause), "none")


def _failure_json(failure: Failure, report: Report) -> dict[str, object]:
    return {
        "rank": failure.rank,
        "local_rank": failure.local_rank,
        "host": failure.host,
        "pid": failure.pid,
        "code": failure.code if failure.code >= 0 else None,
        "signal": signal_name(-failure.code) if failure.code < 0 else None,
        "exit_code": failure.exit_code,
        "after_seconds": round(failure.at - report.began, 3),
        "hint": failure.hint,
        "stderr": failure.stderr,
        "stdout": failure.stdout,
        "message": failure.message,
        "traceback": failure.traceback,
        "log": failure.log,
        "evidence": list(failure.evidence),
    }
