"""The verdict on a job."""

from __future__ import annotations

import signal

import pytest

from dsrun.launcher.common.errors import LOST, NO_PROGRESS
from dsrun.launcher.control.messages import Exit
from dsrun.launcher.head.deaths.verdict import of_exit, of_report
from dsrun.launcher.head.report.report import Loss, Report
from dsrun.launcher.specs.verdict import FailureClass, Retry

JOB = Report("id", 2, ("n1",), 0.0, 1.0)


def test_a_job_that_has_ended_well_gets_none() -> None:
    assert of_report(JOB) is None


@pytest.mark.parametrize(
    ("report", "kind", "retry"),
    [
        (JOB._replace(stop_signal=signal.SIGTERM), FailureClass.PREEMPTED, Retry.YES),
        (JOB._replace(stop_signal=signal.SIGINT), FailureClass.UNKNOWN, Retry.UNKNOWN),
        (JOB._replace(broken_pipe=True), FailureClass.UNKNOWN, Retry.UNKNOWN),
        (
            JOB._replace(losses=(Loss(1.0, "n1", "no heartbeat", LOST),)),
            FailureClass.NODE,
            Retry.YES,
        ),
        (
            JOB._replace(losses=(Loss(1.0, "", "rank 1 hangs", NO_PROGRESS),)),
            FailureClass.UNKNOWN,
            Retry.UNKNOWN,
        ),
    ],
)
def test_a_job_that_was_ended(report: Report, kind: FailureClass, retry: Retry) -> None:
    found = of_report(report)
    assert found is not None
    assert found[:2] == (kind, retry)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_worker_that_a_scheduler_has_ended(number: signal.Signals) -> None:
    found = of_exit("n1", Exit(0, 12, -number, signalled=False, clock=1.0), "")
    assert (found.kind, found.retry) == (FailureClass.PREEMPTED, Retry.YES)
