"""The ending of a job of roles: one report, with a section for each role. Pure."""

from __future__ import annotations

from ...common.errors import LOST, OUTPUT, DsrunError, NodeError, UsageError
from ...common.records import NamedTuple
from ...common.text import plain
from ...common.wording import counted
from ...head.report.ending import Ending
from ...head.report.report import duration, signal_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ...head.report.report import JobReport
    from .runner_json_types import RoleEnd, RolesEnded
    from .runner_policy import Cause

HEAD = "dsrun: "
"""The beginning of the report of a job."""


class Section(NamedTuple):
    """The ending of one role.

    Attributes:
        ends: the effect of a clean end of the role, as in `RoleSpec`.
        state: the last state of the role, in a word.
        ran: whether workers of the role were started.
        restarts: the number of restarts after failures.
        ending: the ending of the last run; None if there was no run.
        unseen: workers of earlier runs that may still run on lost nodes, in words.
    """

    ends: str
    state: str
    ran: bool
    restarts: int
    ending: Ending | None
    unseen: tuple[str, ...] = ()

    @property
    def report(self) -> JobReport | None:
        """The report on the last run of the role."""
        return self.ending.report if self.ending is not None else None


class RolesEnding(Ending):
    """The ending of the whole job, made from the endings of its roles."""

    def __init__(
        self,
        job_id: str,
        sections: Mapping[str, Section],
        cause: Cause | None,
        code: int,
        times: tuple[float, float],
    ) -> None:
        """Combine the endings of the roles of a job.

        Args:
            job_id: the id of the job.
            sections: the ending of each role, by name.
            cause: the reason for an early end; None if the job was not ended early.
            code: the exit code that follows from the policy.
            times: the start and the end of the job, in seconds on the runner's monotonic clock.
        """
        self.job_id, self.report = job_id, None
        self._sections, self._cause, self._code = sections, cause, code
        self._times = times
        self.error = self._refusal()

    @property
    def code(self) -> int:
        """The exit code of dsrun."""
        if self.error is not None:
            return super().code
        return self._code or (LOST if self._left("left") else 0)

    def unwritten(self) -> RolesEnding:
        """Return the ending of this job if its output or its report could not be written."""
        code = self.code or OUTPUT
        return RolesEnding(self.job_id, self._sections, self._cause, code, self._times)

    def _refusal(self) -> DsrunError | None:
        """Return the error that prevented the start; None if some workers were started."""
        if any(section.ran for section in self._sections.values()) or self._first is None:
            return None
        error = self._first.ending.error if self._first.ending is not None else None
        if error is None:
            return None
        kind = UsageError if isinstance(error, UsageError) else NodeError
        told: DsrunError = kind(f"role {self._cause.role if self._cause else ''}: {error}")
        if isinstance(error, DsrunError):
            told.exit_code = error.exit_code
        return told

    @property
    def _first(self) -> Section | None:
        """The role that failed first; None if no role ended the job."""
        return self._sections.get(self._cause.role) if self._cause is not None else None

    # -- words ------------------------------------------------------------------------------

    def words(self, still_shown: Callable[[list[str]], bool] | None = None) -> str:
        """Return the report as text, "" if there is nothing to report."""
        if self.error is not None:
            return ""
        lines = self._why(still_shown) if self._cause is not None else []
        lines += [f"  could not be stopped: {text}" for text in self._left("left")]
        lines += [f"  {text}" for text in self._unseen]
        return "\n".join(dict.fromkeys(lines))

    @property
    def good_end(self) -> str:
        """A line about the good end of a job on several hosts; "" for any other job."""
        ran = {name: one.report for name, one in self._sections.items() if one.report}
        hosts = {host for report in ran.values() for host in report.hosts}
        if self.code or self._cause is not None or len(hosts) < 2:
            return ""
        began, ended = self._times
        workers = counted(sum(one.world_size for one in ran.values()), "worker")
        whose = f"{workers} of {counted(len(ran), 'role')} on {len(hosts)} hosts"
        return f"done after {duration(ended - began)}: {whose}"

    def _why(self, still_shown: Callable[[list[str]], bool] | None) -> list[str]:
        cause, first = self._cause, self._first
        assert cause is not None
        began, ended = self._times
        ago = f"after {duration(ended - began)}"
        if first is None:
            name = cause.why or signal_name(cause.number)
            stopped = sum(one.report.stopped for one in self._sections.values() if one.report)
            return [f"{HEAD}stopped by {name} {ago}: {counted(stopped, 'rank')} told to stop"]
        words = "" if first.ending is None else first.ending.words(still_shown)
        if first.ending is not None and first.ending.error is not None:
            words = f"{HEAD}{first.ending.error}"
        head = f"{HEAD}{cause.role}: "
        text = f"{head}{cause.why} {ago}" if cause.why else head + words.removeprefix(HEAD)
        rest = [words] if cause.why and words else []
        return [*text.split("\n"), *rest, *self._of_others(cause.role)]

    def _of_others(self, failed: str) -> list[str]:
        """Return a line about the other roles that ran, if any."""
        others = [name for name, one in self._sections.items() if one.ran and name != failed]
        return [f"  other roles: {', '.join(map(self._told, others))}"] if others else []

    def _told(self, name: str) -> str:
        report = self._sections[name].report
        stopped = report.stopped if report is not None else 0
        return f"{name} ({counted(stopped, 'rank')} stopped)" if stopped else f"{name} (ended)"

    def _left(self, what: str) -> list[str]:
        reports = {name: one.report for name, one in self._sections.items() if one.report}
        return [f"{name}: {text}" for name, one in reports.items() for text in getattr(one, what)]

    @property
    def _unseen(self) -> list[str]:
        earlier = [f"{name}: {text}" for name, s in self._sections.items() for text in s.unseen]
        return [*self._left("unseen"), *earlier]

    # -- values -----------------------------------------------------------------------------

    def _fields(self) -> Mapping[str, object]:
        if self.error is not None:
            return super()._fields()
        return self._ended()

    def _ended(self) -> RolesEnded:
        cause, first = self._cause, self._first
        data = first.ending.data if first is not None and first.ending is not None else {}
        began, ended = self._times
        return {
            "job_id": self.job_id,
            "exit_code": self.code,
            "seconds": round(ended - began, 3),
            "cause": self._word,
            "role": cause.role if cause is not None and cause.role else None,
            "sentence": plain(self.words().partition("\n")[0].removeprefix(HEAD)),
            "first_failure": data.get("first_failure"),
            "verdict": data.get("verdict"),
            "signal": cause.number if cause is not None and cause.number else None,
            "left": self._left("left"),
            "unseen": self._unseen,
            "roles": {name: _section(one) for name, one in self._sections.items()},
        }

    @property
    def _word(self) -> str:
        """The reason for the end, in a word, as in the report of one program."""
        cause, first = self._cause, self._first
        if cause is None:
            return "none"
        if first is None:
            return "signal"
        known = first.ending.data.get("cause") if first.ending is not None else None
        return "role" if cause.why or known in {None, "none"} else str(known)


def _section(section: Section) -> RoleEnd:
    return {
        "ends": section.ends,
        "state": section.state,
        "started": section.ran,
        "restarts": section.restarts,
        "report": section.ending.data if section.ending is not None else None,
    }
