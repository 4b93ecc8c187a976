"""The report of a job: events, their cause and the exit code. Pure.

The cause is the earliest failure. Nodes report times on their own clocks. Clock offsets are
removed first, which restores the order of the events.
"""

from __future__ import annotations

import signal
from functools import cached_property

from ...common.errors import LOST, OUTPUT
from ...common.exit_codes import as_shell
from ...common.records import NamedTuple
from ...specs.plan import OWN_PYTHON

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Protocol, TypeVar

    from ...control.facts import Facts
    from ...control.messages import NodeBindings
    from ...specs.program import Program
    from ...specs.verdict import Explanation

    T = TypeVar("T")

    class ReportSection(Protocol):
        """A section that few reports have."""

        def json(self, report: JobReport) -> Mapping[str, object]:
            """Return the section's JSON fields; {} if the report has none."""

        def text(self, report: JobReport, headline: str) -> list[str]:
            """Return the section's lines for below the headline, which is "" in a running job."""


class WorkerFailure(NamedTuple):
    """A worker that failed by itself.

    Attributes:
        at: the time of failure, in seconds on the runner's monotonic clock.
        code: exit code, or minus the number of the signal that killed it.
        hint: the cause as far as the node knows it, in words.
        message, traceback: the exception, if torch's `record` saved one.
        log: the path of its standard error log.
        evidence: findings of the node afterwards, each with its kind: `disk: /tmp is full`.
    """

    at: float
    rank: int
    local_rank: int
    host: str
    pid: int
    code: int
    hint: str = ""
    stdout: str = ""
    stderr: str = ""
    message: str = ""
    traceback: str = ""
    log: str = ""
    evidence: tuple[str, ...] = ()

    @property
    def exit_code(self) -> int:
        """The exit code that a shell would show: 128 + N for signal N (POSIX, 2.8.2)."""
        return as_shell(self.code)


NOT_FINITE = "finite"
"""The sign of a loss by a rule: a metric was infinite or NaN."""


class Loss(NamedTuple):
    """The loss of a node, or of all nodes, while the job ran.

    Attributes:
        host: the node's name; "" if all nodes are concerned.
        code: the exit code of dsrun if this loss is the cause.
        words: a text that replaces "lost HOST".
        sign: the finding of a watch if it says more than the code: `NOT_FINITE`, or "".
    """

    at: float
    host: str
    reason: str
    code: int = LOST
    words: str = ""
    sign: str = ""


class ReportFields(NamedTuple):
    """The events of a job, as facts for its report.

    Attributes:
        began, ended: the start and end, in seconds on the runner's monotonic clock.
        stopped: the number of workers that were stopped because of the cause.
        stop_signal: the signal that stopped the job, 0 for none.
        stop_reason: the reason for the stop if nobody sent that signal; else "".
        stop_is_clean: whether to exit with 0 after that signal.
        bound: the bindings of the workers of each host, with --report_bindings.
        left: processes that could not be stopped, in words.
        ran: the program of the workers and its working folder.
        unseen: processes that may still run on lost nodes, in words.
        found: the findings of watches, for sections.
        no_requeue_code: the exit code that replaces the failure's because the job would fail again;
            0 for none.
        facts: the facts that each node reported, by host name.
        done: workers that ended with code 0: (time, rank, host).
        explanation: the reason for the failure, as far as known.
        unwritten: whether standard output, or --report_file, could not be written.
        pythons: the path of the workers' Python on each host; () if they run on none.
        python_origin: the origin of that Python, as in `Origin`.
        unended: workers that had printed a traceback but still ran when they were stopped.
        restarts: the number of restarts of an elastic job.
        sections: the sections that few reports have.
    """

    job_id: str
    world_size: int
    hosts: tuple[str, ...]
    began: float
    ended: float
    failures: tuple[WorkerFailure, ...] = ()
    losses: tuple[Loss, ...] = ()
    stopped: int = 0
    stop_signal: int = 0
    stop_is_clean: bool = False
    broken_pipe: bool = False
    bound: tuple[tuple[str, NodeBindings], ...] = ()
    left: tuple[str, ...] = ()
    ran: tuple[Program | None, str] = (None, "")
    unseen: tuple[str, ...] = ()
    found: tuple[object, ...] = ()
    no_requeue_code: int = 0
    facts: tuple[tuple[str, Facts], ...] = ()
    done: tuple[tuple[float, int, str], ...] = ()
    unwritten: bool = False
    stop_reason: str = ""
    explanation: Explanation | None = None
    unended: tuple[WorkerFailure, ...] = ()
    pythons: tuple[tuple[str, str], ...] = ()
    python_origin: str = OWN_PYTHON
    restarts: int = 0
    sections: Sequence[ReportSection] = ()


class JobReport(ReportFields):
    """The report of a job: its events, with cause and exit code computed once each."""

    @cached_property
    def first(self) -> WorkerFailure | None:
        """The failure that came first in time."""
        return min(self.failures, key=lambda failure: failure.at, default=None)

    @cached_property
    def cause(self) -> WorkerFailure | Loss | None:
        """The first failure or loss; None if there was none."""
        events: Sequence[WorkerFailure | Loss] = [*self.failures, *self.losses]
        return min(events, key=lambda event: event.at, default=None)

    @property
    def kinds(self) -> set[str]:
        """The class names of all findings."""
        return {type(one).__name__ for one in self.found}

    @property
    def says_nothing(self) -> bool:
        """True if the user needs no report."""
        return not (self.exit_code or self.stop_signal or self.unseen)

    @cached_property
    def exit_code(self) -> int:
        """The exit code of dsrun."""
        if self.no_requeue_code:
            return self.no_requeue_code
        if self.stop_signal:
            return 0 if self.stop_is_clean else 128 + self.stop_signal
        if self.broken_pipe:
            return 128 + signal.SIGPIPE
        if isinstance(self.cause, WorkerFailure):
            return self.cause.exit_code
        if self.cause or self.left:
            return self.cause.code if self.cause else LOST
        return OUTPUT if self.unwritten else 0


def of_kind(found: Iterable[object], kind: type[T]) -> list[T]:
    """Return the findings of one class."""
    return [one for one in found if isinstance(one, kind)]


def signal_name(number: int) -> str:
    """Return the name of a signal, given its number."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return "an unknown signal"


def duration(seconds: float) -> str:
    """Return a duration in words: `3 min 12 s`."""
    if seconds < 60:
        return f"{max(0.0, seconds):.1f} s"
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"
