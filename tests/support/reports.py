"""Reports of jobs that have failed, made by hand."""

from __future__ import annotations

from dsrun.launcher.features.diagnosis.runner_verdict import explanation
from dsrun.launcher.head.doors import REPORT_SECTIONS
from dsrun.launcher.head.report.report import JobReport, Loss, WorkerFailure

HOSTS = ("w0", "w1")


def failure(at: float = 112.5, rank: int = 5, code: int = 7, **more: object) -> WorkerFailure:
    """Return a failure of a rank on the second host."""
    facts = {"local_rank": rank % 4, "host": HOSTS[rank // 4], "pid": 4321, **more}
    return WorkerFailure(at=at, rank=rank, code=code, **facts)  # type: ignore[arg-type]


def report(**more: object) -> JobReport:
    """Return the report of a job on two hosts."""
    facts = {"job_id": "j", "world_size": 8, "hosts": HOSTS, "began": 100.0, "ended": 113.25}
    made = JobReport(**{"sections": REPORT_SECTIONS, **facts, **more})  # type: ignore[arg-type]
    return made._replace(explanation=explanation(made)) if made.exit_code else made


LOSS = Loss(110.0, "w1", "gone")
