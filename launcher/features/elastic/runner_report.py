"""The number of restarts of a job, for its report. Pure."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypedDict

    from ...common.json_types import Positive
    from ...head.report.report import JobReport

    class RestartsJson(TypedDict):
        """The section of the report.

        Attributes:
            restarts: the number of restarts of an elastic job; only if there were any.
        """

        restarts: Positive


def fields(report: JobReport) -> RestartsJson:
    """Return the number of restarts for --report_file."""
    return {"restarts": report.restarts}
