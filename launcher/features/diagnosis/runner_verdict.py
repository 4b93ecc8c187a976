"""The verdict on a job, or on one failure."""

from __future__ import annotations

import signal

from ...common.errors import NO_PROGRESS
from ...common.text import plain
from ...head.report.report import NOT_FINITE, Loss, WorkerFailure
from ...specs.verdict import Explanation, FailureClass, Retry, Verdict
from .runner_classify import explain
from .runner_differences import missing_here, not_installed, versions
from .runner_hints import hint
from .runner_program_rows import NOT_FINITE_ROW

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from ...control.messages import WorkerExit
    from ...head.report.report import JobReport
    from .runner_classify import RowMatch

LOST = Verdict(FailureClass.NODE, Retry.YES)
"""The verdict on the loss of a node, without its reason."""

ENDED = Verdict(FailureClass.PREEMPTED, Retry.YES)
"""The verdict on a job that was ended by a scheduler, or by a person with a scheduler's signal."""

FROM_SCHEDULERS = frozenset({signal.SIGTERM, signal.SIGHUP, signal.SIGXCPU})
"""Signals with which schedulers end a job."""


def explanation(report: JobReport) -> Explanation:
    """Return why a job has failed."""
    if report.stop_signal or report.broken_pipe:
        scheduler = report.stop_signal in FROM_SCHEDULERS and not report.stop_reason
        return Explanation(ENDED if scheduler else Verdict())
    cause = report.cause
    if isinstance(cause, Loss):
        return Explanation(_of_loss(cause)._replace(sentence=plain(cause.reason)))
    return _of_failures(report) if isinstance(cause, WorkerFailure) else Explanation(Verdict())


def _of_loss(loss: Loss) -> Verdict:
    if loss.code != NO_PROGRESS:
        return LOST
    row = NOT_FINITE_ROW
    return Verdict(row.kind, row.retry, "", row.advice) if loss.sign == NOT_FINITE else Verdict()


def _of_failures(report: JobReport) -> Explanation:
    first = report.first
    assert first is not None
    known = hint(first, *report.ran)
    if known is not None:
        return Explanation(known, says_more=True)
    found = explain(report.failures, report.done, report.unended)
    if found is None:
        return Explanation(Verdict())
    for look in (missing_here, versions):
        text = look(found, report.facts)
        if text:
            return Explanation(found.verdict._replace(sentence=text), says_more=True)
    wanted = not_installed(found, report.facts, report.ran[0])
    more = wanted is not None and wanted.sentence != found.verdict.sentence
    return Explanation(wanted or found.verdict, says_more=more or not found.own)


def of_exit(host: str, ended: WorkerExit, output: str, others: Iterable[str] = ()) -> Verdict:
    """Return the verdict on the end of one worker, right after this end.

    Args:
        host: the worker's host.
        ended: the end of the worker.
        output: its newest output, of both streams.
        others: the newest output of each of the other ranks, whose failure may be behind it.
    """
    evidence = tuple(filter(None, ended.evidence.split("\n")))
    first = WorkerFailure(
        ended.clock, ended.rank, 0, host, ended.pid, ended.code, evidence=evidence
    )
    failures = [first._replace(stderr=output)]
    failures += [WorkerFailure(ended.clock, -1, 0, "", 0, 1, stderr=text) for text in others]
    found: RowMatch | None = explain(failures)
    return found.verdict if found else Verdict()
