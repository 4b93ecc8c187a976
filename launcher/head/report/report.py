"""The report of a job: what has happened, and what follows from it. Pure.

The cause is the earliest failure. Nodes report times on their own clocks; these are corrected by
the clock's offset first, so that the order is that of the events, not of their arrival.
"""

from __future__ import annotations

import signal
from functools import cached_property

from ...common.errors import LOST, OUTPUT
from ...common.exit_codes import as_shell
from ...common.values import NamedTuple
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
        """A part that few reports have."""

        def json(self, report: JobReport) -> Mapping[str, object]:
            """Return its fields of a report, {} if the report has none."""

        def text(self, report: JobReport, headline: str) -> list[str]:
            """Return its lines beneath the headline, which is "" while the job runs."""


class WorkerFailure(NamedTuple):
    """One worker that failed by itself.

    Attributes:
        at: when, in seconds on the runner's monotonic clock.
        code: exit code, or minus the number of the signal that killed it.
        hint: what the node knows about the cause, in words.
        message, traceback: the exception, if torch's `record` has kept it.
        log: the log file of its standard error.
        evidence: what the node has found after it, each with its kind: `disk: /tmp is full`.
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
"""The sign that a number of the training has become infinite or NaN."""


class Loss(NamedTuple):
    """The loss of a node, or of all nodes, while the job ran.

    Attributes:
        host: its name, "" if all nodes are concerned.
        code: the exit code of dsrun if this is the cause.
        words: the text in place of "lost HOST".
        sign: what a watch has found, as a word that says more than the code: `NOT_FINITE`, or "".
    """

    at: float
    host: str
    reason: str
    code: int = LOST
    words: str = ""
    sign: str = ""


class ReportFields(NamedTuple):
    """What has happened in a job.

    Attributes:
        began, ended: seconds on the runner's monotonic clock.
        stopped: number of workers that were told to stop because of the cause.
        stop_signal: the signal that stopped the job, 0 for none.
        stop_reason: what has stopped it, if nobody has sent that signal; else "".
        stop_is_clean: whether to exit with 0 after that signal.
        bound: the bindings of the workers of each host, if --report_bindings was given.
        left: what could not be ended, in words.
        ran: the program of the workers and its working folder.
        unseen: what may still be running on lost nodes, in words.
        found: the findings of watches while it ran, for sections.
        no_requeue_code: the exit code in place of that of the failure, as the job would fail again;
            0 for none.
        facts: what each node has told of itself, by its name.
        done: the workers that have ended with code 0: when, rank and host.
        explanation: why it has failed, as far as that is known.
        unwritten: whether standard output, or --report_file, could not be written.
        pythons: the path of the workers' Python on each host; () if they run on none.
        python_origin: where that comes from, as in `Origin`.
        unended: the workers that had printed a traceback, and had not ended, when they were told to
            stop.
        restarts: how often the workers of an elastic job were restarted.
        sections: the parts that few reports have.
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
    """How a job has ended: what has happened, and what follows from it, each worked out once."""

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
        """The names of the classes of findings."""
        return {type(one).__name__ for one in self.found}

    @property
    def says_nothing(self) -> bool:
        """Whether there is nothing to say of it to its user."""
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
    """Return the findings of a class."""
    return [one for one in found if isinstance(one, kind)]


def signal_name(number: int) -> str:
    """Return the name of a signal of this number."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return "an unknown signal"


def duration(seconds: float) -> str:
    """Return a duration for people: `3 min 12 s`."""
    if seconds < 60:
        return f"{max(0.0, seconds):.1f} s"
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"
