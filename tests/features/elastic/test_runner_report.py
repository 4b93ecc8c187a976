"""The number of restarts in the report of a job."""

from __future__ import annotations

from dsrun.launcher.features.elastic import runner_report as restarts
from dsrun.launcher.head.report import document

from ...support.reports import report


def test_only_a_job_that_was_restarted_tells_how_often() -> None:
    assert restarts.fields(report(restarts=2)) == {"restarts": 2}
    assert document.fields(report(restarts=2))["restarts"] == 2
    assert "restarts" not in document.fields(report())
