"""The verdict on a job, or on one failure of it."""

from __future__ import annotations

import signal

from ...common.errors import NO_PROGRESS
from ...specs.verdict import FailureClass, Retry, Verdict
from ..report.report import Failure, Loss

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...control.messages import Exit
    from ..report.report import Report

LOST = Verdict(FailureClass.NODE, Retry.YES)
"""The verdict on the loss of a node; the report says how it was lost."""

ENDED = Verdict(FailureClass.PREEMPTED, Retry.YES)
"""The verdict on a job that a scheduler has ended, or a person as a scheduler does."""

FROM_SCHEDULERS = frozenset({signal.SIGTERM, signal.SIGHUP, signal.SIGXCPU})
"""Signals with which schedulers end a job."""


def of_report(report: Report) -> Verdict | None:
    """Return the verdict on a job that has ended; None if it has ended well."""
    if not report.exit_code:
        return None
    if report.stop_signal or report.broken_pipe:
        return ENDED if report.stop_signal in FROM_SCHEDULERS else Verdict()
    cause = report.cause
    if isinstance(cause, Loss):
        return Verdict() if cause.code == NO_PROGRESS else LOST
    return Verdict()


def of_exit(host: str, ended: Exit, output: str) -> Verdict:
    """Return the verdict on the end of one worker, as soon as that is known.

    Args:
        host: where it ran.
        ended: how it has ended.
        output: the newest of its output, of both streams.
    """
    failure = Failure(ended.clock, ended.rank, 0, host, ended.pid, ended.code, stderr=output)
    return _of_failure(failure)


def _of_failure(failure: Failure) -> Verdict:
    return ENDED if -failure.code in FROM_SCHEDULERS else Verdict()
