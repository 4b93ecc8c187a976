"""The ending of a job: one value, made once, and reported everywhere."""

from __future__ import annotations

from functools import cached_property

from ...common.errors import INTERNAL, DsrunError
from .report import JobReport

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from .json_types import Refused


class Ending:
    """The ending of a job, for its nodes, its user, other programs and files.

    Attributes:
        report: the report; None if there is an error.
        error: the reason why the job could not start, or the bug of dsrun that ended it; else None.
    """

    def __init__(self, job_id: str, outcome: JobReport | Exception) -> None:
        """Create an ending from a report, or from the error that replaces the report."""
        self.job_id = job_id
        self.report = outcome if isinstance(outcome, JobReport) else None
        self.error = None if isinstance(outcome, JobReport) else outcome

    @property
    def code(self) -> int:
        """The exit code of dsrun."""
        if self.report is not None:
            return self.report.exit_code
        return self.error.exit_code if isinstance(self.error, DsrunError) else INTERNAL

    @cached_property
    def text(self) -> str:
        """The text for those who see no output of the job; "" if there is nothing to say."""
        return f"dsrun: {self.error}" if self.error is not None else self.words()

    def words(self, still_shown: Callable[[list[str]], bool] | None = None) -> str:
        """Return the report as text (see `words.words`); "" for an error."""
        if self.report is None or self.report.says_nothing:
            return ""
        from .words import words

        return words(self.report, still_shown) if still_shown else words(self.report)

    @property
    def good_end(self) -> str:
        """A line about a job on several hosts that ended well; "" for any other."""
        told = self.report
        if told is None or told.exit_code or not told.says_nothing or len(told.hosts) < 2:
            return ""
        from .words import done

        return done(told)

    @cached_property
    def data(self) -> dict[str, Any]:
        """The report as JSON values, as in --report_file."""
        from ...common.formats import versioned

        return versioned("report", self._fields())

    def _fields(self) -> Mapping[str, object]:
        if isinstance(self.error, DsrunError):
            return self._refused(self.error)
        from .document import crash_fields, fields

        if self.error is not None:
            return crash_fields(self.job_id, self.error)
        assert self.report is not None
        return fields(self.report)

    def _refused(self, error: DsrunError) -> Refused:
        return {"job_id": self.job_id, "exit_code": error.exit_code, "error": str(error)}

    def unwritten(self) -> Ending:
        """Return the ending with the note that output, or the report file, could not be written."""
        if self.report is None:
            return self
        return Ending(self.job_id, self.report._replace(unwritten=True))
