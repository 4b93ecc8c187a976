"""The report of a job, in words and as JSON. Pure.

The cause is the earliest failure. Nodes report times on their own clocks; these are corrected by
the clock's offset first, so that the order is that of the events, not of their arrival.
"""

from __future__ import annotations

import signal

from ...common.errors import INTERNAL, LOST, NO_PROGRESS, OUTPUT
from ...common.exit_codes import as_shell
from ...common.text import plain
from ...common.values import NamedTuple
from ...common.wording import counted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ...control.facts import Facts
    from ...control.messages import NodeBindings
    from ...specs.program import Program
    from ...specs.verdict import Explanation
    from .hangs import Hang
    from .slow import Slow

TAIL_LINES = 20

BESIDE = {".err": ".out", "/stderr.log": "stdout.log"}
"""The log file of standard output, by the end of the name of standard error's."""


class Failure(NamedTuple):
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


class Report(NamedTuple):
    """How a job ended.

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
        hangs: the times in which the job did nothing.
        no_requeue_code: the exit code in place of that of the failure, as the job would fail again;
            0 for none.
        slow: what has slowed it down.
        facts: what each node has told of itself, by its name.
        done: the workers that have ended with code 0: when, rank and host.
        explanation: why it has failed, as far as that is known.
        unwritten: whether standard output, or --report_file, could not be written.
    """

    job_id: str
    world_size: int
    hosts: tuple[str, ...]
    began: float
    ended: float
    failures: tuple[Failure, ...] = ()
    losses: tuple[Loss, ...] = ()
    stopped: int = 0
    stop_signal: int = 0
    stop_is_clean: bool = False
    broken_pipe: bool = False
    bound: tuple[tuple[str, NodeBindings], ...] = ()
    left: tuple[str, ...] = ()
    ran: tuple[Program | None, str] = (None, "")
    unseen: tuple[str, ...] = ()
    hangs: tuple[Hang, ...] = ()
    no_requeue_code: int = 0
    slow: tuple[Slow, ...] = ()
    facts: tuple[tuple[str, Facts], ...] = ()
    done: tuple[tuple[float, int, str], ...] = ()
    unwritten: bool = False
    stop_reason: str = ""
    explanation: Explanation | None = None

    @property
    def first(self) -> Failure | None:
        """The failure that came first in time."""
        return min(self.failures, key=lambda failure: failure.at, default=None)

    @property
    def cause(self) -> Failure | Loss | None:
        """The first failure or loss; None if there was none."""
        events: Sequence[Failure | Loss] = [*self.failures, *self.losses]
        return min(events, key=lambda event: event.at, default=None)

    @property
    def exit_code(self) -> int:
        """The exit code of dsrun."""
        if self.no_requeue_code:
            return self.no_requeue_code
        if self.stop_signal:
            return 0 if self.stop_is_clean else 128 + self.stop_signal
        if self.broken_pipe:
            return 128 + signal.SIGPIPE
        if isinstance(self.cause, Failure):
            return self.cause.exit_code
        if self.cause or self.left:
            return self.cause.code if self.cause else LOST
        return OUTPUT if self.unwritten else 0


def _shows_nothing(lines: list[str]) -> bool:
    """Return whether somebody sees these lines: nobody does."""
    return not lines


def words(report: Report, still_shown: Callable[[list[str]], bool] = _shows_nothing) -> str:
    """Return the report as text, "" for a job that ended well.

    Lines that the screen shows anyway, as far as `still_shown` knows, are not repeated.
    """
    head = _headline(report)
    details = _details(report, still_shown)
    lines = [*head, *(_watched(report, head[0]) if head else []), *details]
    if report.no_requeue_code:
        code = report.no_requeue_code
        lines.append(f"  it would fail again: exit code {code} (--no_requeue_code)")
    lines += [f"  could not be ended: {text}" for text in report.left]
    lines += [f"  {text}" for text in report.unseen]
    return "\n".join(lines)


def _watched(report: Report, headline: str) -> list[str]:
    """Return what was found while the job ran, beneath the headline."""
    found = []
    if report.hangs:
        from . import hangs

        found += hangs.lines(report.hangs, headline)
    if report.slow:
        from . import slow

        found += slow.lines(report.slow)
    return found


def _headline(report: Report) -> list[str]:
    ago = f"after {duration(report.ended - report.began)}"
    if report.stop_signal:
        name = report.stop_reason or signal.Signals(report.stop_signal).name
        if report.stopped:
            number = counted(report.stopped, "rank")
            return [f"dsrun: stopped by {name} {ago}: {number} told to stop"]
        seen = report.done or report.failures or report.losses or report.unseen
        return [f"dsrun: stopped by {name} {ago}{'' if seen else ', before any rank had started'}"]
    if report.broken_pipe:
        return []
    cause = report.cause
    if cause is None:
        return []
    ago = f"after {duration(cause.at - report.began)}"
    if isinstance(cause, Loss):
        what = cause.words or f"lost {cause.host}"
        return [f"dsrun: {what} {ago}: {cause.reason}{_others(report)}"]
    pid = f", pid {cause.pid}" if cause.pid else ""
    where = f"rank {cause.rank} ({cause.host}, local rank {cause.local_rank}{pid})"
    end = f"{_end(cause)} {ago}" if pid else f"was {cause.hint}"
    return [f"dsrun: {where} {end}{_others(report)}"]


def _end(failure: Failure) -> str:
    """Return how a worker ended, as a verb."""
    hint = f" ({failure.hint})" if failure.hint else ""
    if failure.code >= 0:
        return f"exited with code {failure.code}{hint}"
    number = -failure.code
    return f"was killed by {_signal_name(number)} (signal {number}){hint}"


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return "an unknown signal"


def _others(report: Report) -> str:
    also = len(report.failures) - isinstance(report.cause, Failure)
    parts = [f"{counted(also, 'other rank')} failed later"] if also > 0 else []
    whole = isinstance(report.cause, Loss) and not report.cause.host
    ranks = counted(report.stopped, "rank" if whole else "other rank")
    parts += [f"{ranks} stopped"] if report.stopped else []
    return f"; {', '.join(parts)}" if parts else ""


def _details(report: Report, still_shown: Callable[[list[str]], bool]) -> list[str]:
    failure = report.cause
    if not isinstance(failure, Failure) or report.stop_signal or report.broken_pipe:
        return []
    if not failure.pid:
        return []
    lines = [*_recorded(failure), *_tail(failure, still_shown)]
    if failure.log:
        also = [f" (and {out})" for end, out in BESIDE.items() if failure.log.endswith(end)]
        lines.append(f"  its log: {failure.host}:{plain(failure.log)}{''.join(also)}")
    cores = (text.partition(": ") for text in failure.evidence)
    lines += [
        f"  its core dump: {failure.host}:{plain(at)}" for kind, _, at in cores if kind == "core"
    ]
    found = report.explanation
    return [*lines, *(f"  {text}" for text in (found.lines if found else ()))]


def _recorded(failure: Failure) -> list[str]:
    """Return the recorded exception, unless the last output has it."""
    if not failure.message or failure.message.split("\n")[0] in failure.stderr:
        return []
    text = failure.traceback if failure.traceback.strip() else failure.message
    lines = [plain(line) for line in text.rstrip().split("\n")[-TAIL_LINES:]]
    return ["  the exception recorded by @record:", *(f"    {line}" for line in lines)]


def _tail(failure: Failure, still_shown: Callable[[list[str]], bool]) -> list[str]:
    name, text = ("error", failure.stderr) if failure.stderr.strip() else ("output", failure.stdout)
    # Of a progress bar, show only the last state.
    lines = [line.rstrip("\r").rpartition("\r")[2] for line in text.rstrip().split("\n")]
    last = [plain(line) for line in lines[-TAIL_LINES:] if text.strip()]
    if not last:
        return ["  it printed nothing"]
    if still_shown(last):
        return [f"  the end of its standard {name} is above"]
    return [f"  the end of its standard {name}:", *(f"    {line}" for line in last)]


def duration(seconds: float) -> str:
    """Return a duration for people: `3 min 12 s`."""
    if seconds < 60:
        return f"{max(0.0, seconds):.1f} s"
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"


def as_json(report: Report) -> dict[str, object]:
    """Return the report for --report_file."""
    cause = report.cause
    return {
        "job_id": report.job_id,
        "exit_code": report.exit_code,
        "seconds": round(report.ended - report.began, 3),
        "world_size": report.world_size,
        "hosts": list(report.hosts),
        "cause": _cause_json(report, cause),
        "first_failure": _failure_json(report.first, report) if report.first else None,
        "failures": [
            _failure_json(one, report) for one in sorted(report.failures, key=lambda f: f.at)
        ],
        "lost": [{"host": loss.host, "reason": loss.reason} for loss in report.losses],
        "stopped": report.stopped,
        "signal": report.stop_signal or None,
        "left": list(report.left),
        "unseen": list(report.unseen),
        "verdict": _verdict_json(report),
        **_watched_json(report),
    }


def _watched_json(report: Report) -> dict[str, object]:
    """Return what was asked for, or found, while the job ran; little of it in most jobs."""
    found: dict[str, object] = {}
    if report.bound:
        from . import bindings

        found["bindings"] = bindings.as_json(report.bound)
    if report.hangs:
        from . import hangs

        found["hangs"] = hangs.as_json(report.hangs, report.began)
    if report.slow:
        from . import slow

        found["slow"] = slow.as_json(report.slow, report.began)
    return found


def crash_json(job_id: str, error: Exception) -> dict[str, object]:
    """Return the report for a job that ended because of an internal error of dsrun."""
    text = f"{type(error).__name__}: {error}"
    return {
        "job_id": job_id,
        "exit_code": INTERNAL,
        "cause": "internal error",
        "error": plain(text.replace("\n", " ")),
    }


def _verdict_json(report: Report) -> dict[str, str] | None:
    if not report.exit_code:
        return None
    from ...specs.verdict import Explanation

    verdict = (report.explanation or Explanation()).verdict
    return {
        "class": verdict.kind.value,
        "retry": verdict.retry.value,
        "sentence": verdict.sentence,
        "advice": verdict.advice,
    }


def _cause_json(report: Report, cause: Failure | Loss | None) -> str:
    if report.stop_signal:
        return "signal"
    if report.broken_pipe:
        return "broken pipe"
    if isinstance(cause, Loss) and cause.code == NO_PROGRESS:
        return "no progress"
    return {Failure: "failure", Loss: "lost"}.get(type(cause), "none")


def _failure_json(failure: Failure, report: Report) -> dict[str, object]:
    return {
        "rank": failure.rank,
        "local_rank": failure.local_rank,
        "host": failure.host,
        "pid": failure.pid,
        "code": failure.code if failure.code >= 0 else None,
        "signal": _signal_name(-failure.code) if failure.code < 0 else None,
        "exit_code": failure.exit_code,
        "after_seconds": round(failure.at - report.began, 3),
        "hint": failure.hint,
        "stderr": failure.stderr,
        "stdout": failure.stdout,
        "message": failure.message,
        "traceback": failure.traceback,
        "log": failure.log,
        "evidence": list(failure.evidence),
    }
