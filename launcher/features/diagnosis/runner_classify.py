"""Explains the failures of a job, by the table. Pure.

Uncertain causes are left unknown: a program that prints an exception and continues, two rows that
disagree, or the end of a rank that may be the consequence of another's.
"""

from __future__ import annotations

import signal
from functools import lru_cache
from itertools import pairwise

from ...common.records import NamedTuple
from ...common.text import plain
from ...specs.verdict import FailureClass, Verdict
from .runner_last_output import LastWords, bare, last_words
from .runner_own_words import is_evidence, tells
from .runner_row import Row, fits, said
from .runner_table import CODES_OF_EXCEPTIONS, EVIDENCE, EXCEPTIONS, LINES, SIGNALS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import TypeAlias

    from ...head.report.report import WorkerFailure
    from .runner_last_output import RaisedException

    Done: TypeAlias = tuple[float, int, str]

AS_MANY = "make all ranks take the same number of steps: check how the data is divided"

CLOSED = "which closed the connections to it"
FAILED = f"failed, {CLOSED}"
NOT_ENDED = "had already raised an exception, and had not exited"

LAST = 8
"""Last lines that may explain why a program did not start; schedulers' lines may be further up."""

OF_A_LOADER = said("in DataLoader worker process")
"""torch's words for an exception in a data loader, which a sample may have caused."""

WARNED = (
    said("NCCL error", " NCCL WARN "),
    said("interface", "NCCL_SOCKET_IFNAME set "),
    said("recv, got", " failed on SocketImpl("),
    said("start new thread", "RLIMIT_NPROC "),
    said("device-side assert triggered", ": block: ["),
    said("DataLoader worker (pid", "insufficient shared memory (shm)"),
)
"""Words of exceptions, and of earlier lines that say more."""

QUOTED = 200
"""Characters of a program's own words in a sentence."""

(NCCL_ACCOUNT,) = said("Last error:")

LONGEST = 300
"""Characters of a sentence."""

SHOWN_BY_SHELLS = frozenset(
    {signal.SIGABRT, signal.SIGBUS, signal.SIGKILL, signal.SIGSEGV, signal.SIGTERM}
)
"""Signals that an exit code above 128 may mean; programs choose other codes for themselves."""


class RowMatch(NamedTuple):
    """The row that explains a failure.

    Attributes:
        sentence: the failure in words.
        own: whether the sentence only repeats the program's own words.
    """

    row: Row
    sentence: str
    host: str
    own: bool = False

    @property
    def verdict(self) -> Verdict:
        """The verdict on a failure that has no other cause."""
        return Verdict(self.row.kind, self.row.retry, self.sentence, self.row.advice)


def explain(
    failures: Iterable[WorkerFailure],
    done: Sequence[Done] = (),
    unended: Iterable[WorkerFailure] = (),
) -> RowMatch | None:
    """Return the explanation of the first of these failures, or None.

    If it may be a consequence, its cause is looked for among the other failures, the workers that
    had raised an exception and not ended, and those that were done before it.
    """
    first, *others = sorted(failures, key=lambda failure: failure.at)
    found = diagnose(first)
    if found is None or not found.row.echo:
        return found
    causes = [cause for other in others if (cause := _cause(other, FAILED))]
    causes = causes or [cause for other in unended if (cause := _cause(other, NOT_ENDED))]
    if not causes:
        before = [one for one in done if one[0] < first.at]
        return _left_alone(found, max(before)) if before else found
    if len({cause.row.kind for cause in causes}) > 1:
        return None
    return causes[0]


def _left_alone(found: RowMatch, done: Done) -> RowMatch:
    """Return the match for a worker that ended in good order while others needed it."""
    _, rank, host = done
    text = f"rank {rank} ({host}) had already exited with code 0, {CLOSED}"
    return RowMatch(Row("left-alone", advice=AS_MANY), text, found.host)


def _cause(other: WorkerFailure, words: str) -> RowMatch | None:
    """Return the explanation of another rank's failure, unless that is a consequence itself."""
    found = diagnose(other, logs=True) or _unexplained(other)
    if found is None or found.row.echo:
        return None
    behind = f"rank {other.rank} ({other.host}) {words}"
    return found._replace(sentence=_cut(f"{behind}: {found.sentence}"), own=False)


def _unexplained(failure: WorkerFailure) -> RowMatch | None:
    """Return a match without a row, in the program's own words."""
    raised = said_by(failure).raised
    if raised:
        return RowMatch(Row("unexplained"), _own(raised[0]), failure.host)
    if failure.code < 0 and -failure.code != signal.SIGABRT:
        text = f"it was killed by signal {-failure.code}"
        return RowMatch(Row("unexplained"), text, failure.host)
    return None


@lru_cache(16)  # the report asks more than once
def diagnose(failure: WorkerFailure, *, logs: bool = False) -> RowMatch | None:
    """Return the row that explains a failure by itself, or None.

    With `logs`, a running program that logs exceptions in one line may have written the output.
    """
    said = said_by(failure)
    number = _signal(failure.code)
    by_exception = number in {0, signal.SIGABRT}
    raised = _by_exception(failure, said.raised) if by_exception else None
    # An abort while Python exits follows from the exception.
    aborted = by_exception and said.raised
    by_signal = None if aborted else _by_signal(failure, said, number)
    silent = by_exception and not said.raised
    lines = _by_line(failure, said.lines, apart=False) if silent else None
    bare_one = _by_bare(failure, said.lines) if silent and not logs else None
    found = raised or by_signal or bare_one or lines
    apart = _by_line(failure, said.lines, apart=True)
    if apart is not None and not (apart.row.echo and raised):
        return None if _disagree(apart, raised) else apart
    if found is None or found.row.echo or found.row.finds == "xid":
        return _by_evidence(failure) or found
    return found


def _signal(code: int) -> int:
    """Return the signal that ended a worker, or a command in its shell; 0 for none."""
    return -code if code < 0 else code - 128 if code - 128 in SHOWN_BY_SHELLS else 0


def said_by(failure: WorkerFailure) -> LastWords:
    """Return the last words of a worker, on any stream or to torch's `record`."""
    errors = last_words(failure.stderr, failure.code)
    if errors.raised:
        return errors
    output, recorded = last_words(failure.stdout, failure.code), last_words(failure.traceback, 1)
    return LastWords(output.raised or recorded.raised, (*output.lines, *errors.lines))


def _by_exception(failure: WorkerFailure, raised: Sequence[RaisedException]) -> RowMatch | None:
    """Return the explanation of the exception that ended a program, or of its cause."""
    certain = [_of_raised(failure, each) for each in raised if each.certain]
    found = [one for one in certain if one]
    if found and found[0].row.echo:  # such as a barrier while an exception was handled
        handled = [_of_raised(failure, each) for each in raised if not each.certain]
        found += [one for one in handled if one]
    if any(words in each.text for each in raised for words in OF_A_LOADER):
        found = [one for one in found if not one.row.by_sample]
    return max(found, key=_weight, default=None)


def _by_bare(failure: WorkerFailure, lines: Sequence[str]) -> RowMatch | None:
    """Return the explanation of an exception that shows only its last lines."""
    found = bare(lines) if failure.code in CODES_OF_EXCEPTIONS else None
    return _of_raised(failure, found) if found else None


def _weight(found: RowMatch) -> int:
    """Return the weight of a match: a class counts more than none, and a consequence least."""
    return 0 if found.row.echo else 1 + (found.row.kind is not FailureClass.UNKNOWN)


def _warnings(failure: WorkerFailure, raised: RaisedException) -> str:
    """Return the lines in which a library gives the reason for its failure."""
    wanted = [line for words, line in WARNED if words in raised.text]
    shown = said_by(failure).lines if wanted else ()
    return "\n".join(line for line in shown if any(one in line for one in wanted))


def _of_raised(failure: WorkerFailure, raised: RaisedException) -> RowMatch | None:
    more = _warnings(failure, raised)
    text = f"{raised.text}\n({raised.place})\n{more}"
    for row in EXCEPTIONS:
        groups = fits(row, text, raised.name)
        if groups is not None and _tells(row, raised, more):
            return _found(row, failure, groups, _own(raised), _evident(row, raised))
    return None


def _tells(row: Row, raised: RaisedException, more: str) -> bool:
    """Return whether the program itself says the words of a row, and does not quote them."""
    elsewhere = f"{raised.place}\n{more}"
    own = not row.said or row.raised == (raised.name,)  # whose words are looked for in this class
    return own or any(
        one in elsewhere or (one in raised.text and is_evidence(raised, one)) for one in row.said
    )


def _evident(row: Row, raised: RaisedException) -> str:
    """Return the line of an exception that a row has recognized, and its place.

    NCCL's own account follows torch's words.
    """
    lines = raised.text.split("\n")
    last = [line for before, line in pairwise(lines) if before.startswith(NCCL_ACCOUNT)]
    fitting = [line for words in row.said for line in lines if words in line]
    line = plain([*last, *fitting, lines[0]][0]).strip()
    shown = line if len(line) <= QUOTED else f"{line[: QUOTED - 3]}..."
    return f"{shown} ({raised.place})" if raised.place else shown


def _by_signal(failure: WorkerFailure, said: LastWords, number: int) -> RowMatch | None:
    text = "\n".join(said.lines)
    for row in SIGNALS:
        if number not in row.signals or (row.needs and not evidence_of(failure, row.needs)):
            continue
        groups = fits(row, text)
        if groups is not None:
            return _found(row, failure, groups, "")
    return None


def _by_line(failure: WorkerFailure, lines: Sequence[str], *, apart: bool) -> RowMatch | None:
    looked = lines if apart else lines[-LAST:]
    text = "\n".join(looked)
    rows = [row for row in LINES if row.apart is apart and fits(row, text) is not None]
    rows = [row for row in rows if not row.codes or failure.code in row.codes]
    for line in reversed(looked if rows else ()):
        for row in rows:
            groups = fits(row, line)
            if groups is not None and (apart or tells(line, row.said)):
                return _found(row, failure, groups, line.strip(), line.strip())
    return None


def _by_evidence(failure: WorkerFailure) -> RowMatch | None:
    for row in EVIDENCE:
        for text in failure.evidence:
            if fits(row, text) is not None:
                return RowMatch(row, _cut(plain(text.partition(": ")[2])), failure.host)
    return None


def _disagree(apart: RowMatch, found: RowMatch | None) -> bool:
    if found is None or found.row.echo:
        return False
    return found.row.kind not in {FailureClass.UNKNOWN, apart.row.kind}


def _found(
    row: Row, failure: WorkerFailure, groups: Mapping[str, str], own: str, evident: str = ""
) -> RowMatch:
    """Return a match; the evident words fill gaps in its sentence."""
    worded = row.sentence.format_map(groups)
    if worded and worded == row.sentence and evident:
        worded = f"{worded}: {evident}"
    sentence = evidence_of(failure, row.finds) or worded
    return RowMatch(row, _cut(sentence or own), failure.host, own=not sentence)


def evidence_of(failure: WorkerFailure, name: str) -> str:
    """Return the node's evidence of this name, or ""."""
    found = (text.partition(": ") for text in failure.evidence)
    return next((plain(text) for kind, _, text in found if name and kind == name), "")


def _own(raised: RaisedException) -> str:
    line = raised.text.partition("\n")[0]
    return _cut(f"{line} ({raised.place})" if raised.place else line)


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 3]}..."
