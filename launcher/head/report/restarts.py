"""How often the workers of a job were restarted, for its report. Pure."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypedDict

    from ...common.json_types import Positive
    from .report import JobReport

    class RestartsJson(TypedDict):
        """The section of the report.

        Attributes:
            restarts: how often the workers of an elastic job were restarted; only if they were.
        """

        restarts: Positive


def fields(report: JobReport) -> RestartsJson:
    """Return the number of restarts for --report_file."""
    return {"restarts": report.restarts}
