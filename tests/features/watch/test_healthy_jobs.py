"""Healthy jobs are not stopped, whatever their ranks do for a while; see `healthy_jobs.py`."""

from __future__ import annotations

import pytest

from .healthy_jobs import HealthyJob, stopped


@pytest.mark.parametrize("timeout", [8.0, 60.0, 300.0])
@pytest.mark.parametrize("seed", range(2))
def test_a_healthy_job_is_not_stopped(seed: int, timeout: float) -> None:
    job = HealthyJob(seed, timeout)
    job.play(3.0)
    assert stopped(job) == []


def test_a_job_that_hangs_is_found() -> None:
    """Where a rank sleeps for ever; otherwise these jobs would show nothing."""
    job = HealthyJob(0, 60.0)
    job.play(0.5)
    job.hang()
    job.play(0.6)
    assert [name for name, _ in stopped(job)] == ["a hang"]
