"""The verdict on the observations of a row: was the promise kept? Pure."""

from __future__ import annotations

import re

from ...common.exit_codes import as_shell
from ...common.records import NamedTuple
from ...common.wording import counted
from .runner_rows import LINES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Literal, TypeAlias

    from .runner_rows import Promise, PromiseRow

    State: TypeAlias = Literal["ok", "not ok", "skipped", "planned"]

UP = re.compile(r"(?P<host>.+):(?P<rank>\d+)\| @up \d+ (?P<world>\d+) (?P<job>\S*) (?P<owners>\S*)")
"""A stand-in's first line, behind the prefix of dsrun."""

LABELLED = re.compile(r".+:(?P<rank>\d+)\| (?P<words>.*)")
"""A line of a rank."""

ALARMS = ("failures", "lost", "hangs", "slow")
"""Fields of the report that are empty, or absent, if nothing was found."""

SHOWN = 3
"""Processes named for a node."""


class UpWorker(NamedTuple):
    """A stand-in that is up.

    Attributes:
        host: its host, as dsrun names it.
        rank: its rank.
        world: the number of ranks.
        job: the id of its job.
        owners: its node launcher and guard.
    """

    host: str
    rank: int
    world: int
    job: str
    owners: str


class Seen(NamedTuple):
    """The observations of a job.

    Attributes:
        code: dsrun's exit code as Popen has it; None if it did not end in time.
        seconds: the time from the fault to the end of dsrun.
        clean: the time from the fault until no node had anything left; None if one had.
        report: dsrun's report; {} if it wrote none.
        messages: dsrun's standard error.
        output: the lines that the ranks printed.
        ups: the stand-ins that were up.
        left: processes that were left when the time was over, in words, by node.
        wrong: other faults.
    """

    code: int | None
    seconds: float = 0.0
    clean: float | None = 0.0
    report: Mapping[str, object] = {}
    messages: tuple[str, ...] = ()
    output: tuple[str, ...] = ()
    ups: tuple[UpWorker, ...] = ()
    left: Mapping[str, Sequence[str]] = {}
    wrong: tuple[str, ...] = ()

    @property
    def skip(self) -> str:
        """The reason why a stand-in could not do its part, "" if it did."""
        for line in self.output:
            if (found := LABELLED.fullmatch(line)) and found["words"].startswith("@skip "):
                return found["words"].removeprefix("@skip ")
        return ""


class RowResult(NamedTuple):
    """A row with its verdict.

    Attributes:
        row: the row.
        state: whether the promise was kept.
        why: the breach of the promise, or the reason for skipping the row.
        code: the exit code in the form of a shell; None without one.
        line: the line of dsrun's report about the cause; "" if none was asked for, or found.
        ended: seconds from the fault until dsrun had ended; None if it did not.
        clean: seconds from the fault until nothing was left; None if something was.
    """

    row: PromiseRow
    state: State
    why: tuple[str, ...] = ()
    code: int | None = None
    line: str = ""
    ended: float | None = None
    clean: float | None = None


def stand_in(line: str) -> UpWorker | None:
    """Return the stand-in whose first line this is."""
    found = UP.fullmatch(line)
    if found is None:
        return None
    rank, world = int(found["rank"]), int(found["world"])
    return UpWorker(found["host"], rank, world, found["job"], found["owners"])


def judged(row: PromiseRow, seen: Seen) -> RowResult:
    """Return the verdict on a row."""
    if seen.skip and not seen.wrong:
        return RowResult(row, "skipped", (seen.skip,))
    why = (*_problems(row, seen), *seen.wrong)
    code = None if seen.code is None else as_shell(seen.code)
    ended = None if seen.code is None else seen.seconds
    line = _named(row.promise, seen)
    return RowResult(row, "not ok" if why else "ok", why, code, line, ended, seen.clean)


def _problems(row: PromiseRow, seen: Seen) -> Iterator[str]:
    promise = row.promise
    if seen.code is None:
        yield f"dsrun did not end within {seen.seconds:.1f} s"
    else:
        yield from _at_the_end(promise, seen, as_shell(seen.code))
    if not _named(promise, seen) and promise.line:
        said = next((line for line in reversed(seen.messages) if line.startswith("dsrun: ")), "")
        yield f"no line with {_wanted(promise, seen)!r}{f'; the last one: {said}' if said else ''}"
    yield from _rest(seen.left)
    if promise.each:
        yield from _once_each(promise.each, seen)
    if row.lines:
        yield from _in_order(seen)


def _at_the_end(promise: Promise, seen: Seen, code: int) -> Iterator[str]:
    if code not in promise.codes:
        yield f"exit code {code}, not {codes(promise)}"
    slow = max(seen.seconds, seen.clean or 0.0)
    if slow > promise.within:
        yield f"it took {slow:.1f} s, not at most {promise.within:g}"
    if seen.seconds < promise.after:
        yield f"it took {seen.seconds:.1f} s, not at least {promise.after:g}"
    if promise.cause and (cause := seen.report.get("cause")) != promise.cause:
        yield f"the report has the cause {cause!r}, not {promise.cause!r}"
    if promise.cause and (told := seen.report.get("exit_code")) != code:
        yield f"the report has the exit code {told!r}, not {code}"
    for name in ALARMS if promise.quiet else ():
        if seen.report.get(name):
            yield f"a false alarm: the report has {name}"


def _rest(left: Mapping[str, Sequence[str]]) -> Iterator[str]:
    for host, texts in left.items():
        if texts:
            more = f" and {len(texts) - SHOWN} more" if len(texts) > SHOWN else ""
            yield f"left on {host}: {', '.join(texts[:SHOWN])}{more}"


def codes(promise: Promise) -> str:
    """Return the promised codes in words."""
    first, last = promise.codes[0], promise.codes[-1]
    return str(first) if first == last else f"{first} to {last}"


def _wanted(promise: Promise, seen: Seen) -> str:
    """Return the required line, with `...` for any text."""
    victim = max(seen.ups, key=lambda one: one.rank, default=UpWorker("?", 0, 1, "", ""))
    code = "?" if seen.code is None else as_shell(seen.code)
    return promise.line.format(rank=victim.rank, host=victim.host, code=code)


def _named(promise: Promise, seen: Seen) -> str:
    """Return the first message with the promised line, or ""."""
    if not promise.line:
        return ""
    parts = _wanted(promise, seen).split("...")
    for line in seen.messages:
        at = 0
        for part in parts:
            at = line.find(part, at) + 1
            if not at:
                break
        else:
            return line.strip().removeprefix("dsrun: ")
    return ""


def _once_each(word: str, seen: Seen) -> Iterator[str]:
    labelled = filter(None, map(LABELLED.fullmatch, seen.output))
    ranks = sorted(int(one["rank"]) for one in labelled if one["words"] == word)
    world = max((one.world for one in seen.ups), default=0)
    if ranks != [*range(world)]:
        yield f"{word} was printed by the ranks {ranks}, not by each of {world} once"


def _in_order(seen: Seen) -> Iterator[str]:
    """Yield which ranks have not printed all numbers, in order and once."""
    printed: dict[int, list[str]] = {}
    for one in filter(None, map(LABELLED.fullmatch, seen.output)):
        if one["words"].startswith("line "):
            printed.setdefault(int(one["rank"]), []).append(one["words"])
    for rank in range(world := max((one.world for one in seen.ups), default=1)):
        lines = printed.get(rank, [])
        if lines != [f"line {number}" for number in range(LINES // world)]:
            yield f"rank {rank}: {counted(len(lines), 'line')}, not {LINES // world} in order"


def any_broken(results: Sequence[RowResult]) -> bool:
    """Return whether a promise was broken."""
    return any(one.state == "not ok" for one in results)
