"""The results, exceptions and deaths of a job's ranks."""

from __future__ import annotations

import signal

from ..common.text import plain
from ..head.run.events import Exit, Round, Started
from .errors import JobError, RankError
from .outcome import Outcome, outcome_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .events import Event
    from .report import Report


class Outcomes:
    """Collects the reports and exits of the ranks, of the newest round only."""

    def __init__(self, role: str = "") -> None:
        """Collect the reports of a role; "" in a job of one program."""
        self._role = role
        self._reports: dict[int, bytearray] = {}
        self._exits: dict[int, Exit] = {}
        self._size = 0

    def add(self, rank: int, data: bytes) -> None:
        """Add a part of a rank's report."""
        self._reports.setdefault(rank, bytearray()).extend(data)

    def note(self, event: Event) -> None:
        """Record the end of a rank; a new round makes earlier ends void."""
        match event:
            case Started() | Round():
                self._size = event.world_size
                self._reports.clear()
                self._exits.clear()
            case Exit():
                self._exits[event.rank] = event

    def results(self, report: Report) -> dict[int, Any]:
        """Return the values by rank.

        Raises:
            RankError: a rank has failed.
            JobError: the job has not ended well for another reason.
        """
        failed = self._failed(report)
        if failed:
            error = failed[0][1]
            raise error from error.__cause__
        if report.exit_code:
            raise JobError(
                report.text or f"the job ended with code {report.exit_code}",
                report.exit_code,
                report,
            )
        outcomes = {rank: outcome_of(data) for rank, data in self._reports.items()}
        return {
            rank: outcome.value if (outcome := outcomes.get(rank)) else None
            for rank in range(report.world_size)
        }

    def exceptions(self, report: Report) -> dict[int, BaseException]:
        """Return the exceptions of failed ranks, by rank."""
        return {rank: error.__cause__ or error for rank, error in sorted(self._failed(report))}

    def _failed(self, report: Report) -> list[tuple[int, RankError]]:
        """Return the ranks that failed on their own, with their errors, in the order of failure."""
        order = [failure.rank for failure in report.failures]
        raised = {
            rank: outcome
            for rank, data in self._reports.items()
            if (outcome := outcome_of(data)) is not None and outcome.raised
        }
        own = [rank for rank in sorted(raised) if rank not in order]
        # An exception of a rank that is being stopped follows from the stop.
        own = [rank for rank in own if not (rank in self._exits and self._exits[rank].stopped)]
        return [(rank, self._error(rank, raised.get(rank), report)) for rank in (*order, *own)]

    def _error(self, rank: int, outcome: Outcome | None, report: Report) -> RankError:
        ended = self._exits.get(rank)
        host = ended.host if ended is not None else "?"
        failed = next((one for one in report.failures if one.rank == rank), None)
        host = failed.host if failed is not None else host
        code = report.exit_code or 1
        role = f"{self._role}: " if self._role else ""
        where = f"{role}rank {rank} on {host}"
        if outcome is None:
            how = _ended(ended.code if ended is not None else 0, ended.hint if ended else "")
            return RankError(f"{where} {how}", code, report, (rank, host), role=self._role)
        traceback = plain(outcome.traceback)
        text = f"{where}: {plain(outcome.words)}"
        if traceback:
            text += f"\n\n{traceback.rstrip()}"
        error = RankError(text, code, report, (rank, host), traceback, self._role)
        error.__cause__ = outcome.error
        return error


def _ended(code: int, hint: str) -> str:
    """Return a rank's end, as a verb."""
    more = f" ({hint})" if hint else ""
    if code >= 0:
        return f"exited with code {code}{more}"
    names = {one.value: one.name for one in signal.Signals}
    return f"was killed by {names.get(-code, 'an unknown signal')} (signal {-code}){more}"
