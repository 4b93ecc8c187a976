"""The rows of `dsrun-check --promises` as a table. Pure."""

from __future__ import annotations

from ...common.text import plain
from ...common.wording import counted
from .runner_verdict import codes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from .runner_rows import PromiseRow
    from .runner_verdict import RowResult

NAMES, STATES = 14, 9
"""Widths of columns."""


def heading() -> str:
    """Return the first line."""
    return f"{'ROW':{NAMES}}{'STATE':{STATES}}FAULT, PROMISE AND WHAT WAS SEEN"


def lines(result: RowResult) -> Iterator[str]:
    """Yield the lines of a row."""
    row = result.row
    yield f"{row.name:{NAMES}}{result.state:{STATES}}{row.fault}"
    for text in (f"promised: {promised(row)}", *_seen(result)):
        yield f"{'':{NAMES + STATES}}{plain(text)}"


def promised(row: PromiseRow) -> str:
    """Return a promise in words."""
    promise = row.promise
    line = _line(row)
    named = f", and a line with '{line}'" if line else ""
    named += f", {promise.each!r} once from each rank" if promise.each else ""
    least = f"{promise.after:g} to " if promise.after else "within "
    return f"code {codes(promise)}{named}; nothing left, {least}{promise.within:g} s"


def _seen(result: RowResult) -> Iterator[str]:
    if result.state in {"ok", "not ok"}:
        code = "no exit code" if result.code is None else f"code {result.code}"
        ended = "" if result.ended is None else f" after {result.ended:.1f} s"
        clean = "" if result.clean is None else f"; nothing left after {result.clean:.1f} s"
        yield f"seen:     {code}{ended}{clean}"
    if result.line:
        yield f"          {result.line}"
    for text in result.why:
        yield f"{'why:' if result.state == 'skipped' else 'wrong:':10}{text}"


def as_markdown(rows: Sequence[PromiseRow]) -> Iterator[str]:
    """Yield the table of docs/promises.md."""
    yield "| row | fault | exit code | what dsrun says | seconds |"
    yield "|---|---|---|---|---|"
    for row in rows:
        promise = row.promise
        line = _line(row)
        said = [f"`{line}`" if line else "", f"each rank: `{promise.each}`" if promise.each else ""]
        least = f"{promise.after:g} to " if promise.after else ""
        bound = f"{least}{promise.within:g}"
        told = ", ".join(filter(None, said))
        yield f"| `{row.name}` | {row.fault} | {codes(promise)} | {told} | {bound} |"


def _line(row: PromiseRow) -> str:
    return row.promise.line.format(rank="RANK", host="HOST", code="CODE").strip()


def summary(results: Sequence[RowResult], seconds: float) -> str:
    """Return the last line."""
    states = [one.state for one in results]
    skipped = [one.row.name for one in results if one.state == "skipped"]
    rest = f", {len(skipped)} skipped ({', '.join(skipped)})" if skipped else ""
    broken = f", {states.count('not ok')} not ok" if "not ok" in states else ""
    kept = states.count("ok")
    return f"{counted(kept, 'promise')} kept{broken}{rest} in {seconds:.0f} s"
