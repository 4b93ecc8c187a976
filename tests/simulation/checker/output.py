"""Compare what the workers have printed with what dsrun has shown. Pure.

The lines of each rank are followed in their order. A line that is shown, but is not the next one
that was printed, is one of these: it was shown already, it is out of order, it is a piece of a line
(or several lines), or nobody has printed it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from .facts import Facts, Problem


class Line(NamedTuple):
    """A line that was printed or shown; `round` is -1 where it was shown."""

    at: int
    text: str
    round: int = -1


def problems(facts: Facts) -> Iterator[Problem]:
    """Return what is wrong with the output of each rank."""
    printed: dict[int, list[Line]] = {}
    shown: dict[int, list[Line]] = {}
    for index, event in facts.of_kind("printed"):
        line = Line(index, event.fields["line"], event.fields["round"])
        printed.setdefault(event.fields["rank"], []).append(line)
    for index, event in facts.of_kind("shown"):
        if event.fields["rank"] >= 0:
            shown.setdefault(event.fields["rank"], []).append(Line(index, event.fields["line"]))
    begun = list(_begun(facts, printed))
    for rank in sorted({*printed, *shown}):
        parts = [part for one, part in begun if one == rank]
        lines = shown.get(rank, [])
        rest = [one for one in lines if not any(_begins(one.text, part) for part in parts)]
        yield from _of_rank(facts, rank, printed.get(rank, []), rest)


def _begins(text: str, part: str) -> bool:
    return bool(text) and part.startswith(text)


def _begun(facts: Facts, printed: dict[int, list[Line]]) -> Iterator[tuple[int, str]]:
    """Return the beginnings of lines whose ends were not printed in time, each with its rank."""
    end = next((index for index, _ in facts.of_kind("shown")), len(facts.history))
    whole = {(rank, one.text) for rank, lines in printed.items() for one in lines if one.at < end}
    for _, event in facts.of_kind("begun"):
        rank: int = event.fields["rank"]
        if (rank, event.fields["line"]) not in whole:
            yield rank, event.fields["part"]


def _of_rank(
    facts: Facts, rank: int, printed: Sequence[Line], shown: Sequence[Line]
) -> Iterator[Problem]:
    seen: set[int] = set()
    at = 0
    for number, line in enumerate(shown):
        place = _place(printed, line, at)
        if place is not None:
            seen.add(place)
            at = place + 1
            continue
        before = sum(one.text == line.text for one in shown[: number + 1])
        rule = _fault(printed, line, before)
        yield facts.problem(rule, f"rank {rank}: {line.text!r}", line.at, rank=rank)
        if rule == "lines_in_order":
            seen.add(next(n for n, one in enumerate(printed) if one.text == line.text))
    yield from _missing(facts, rank, printed, seen)


def _place(printed: Sequence[Line], line: Line, start: int) -> int | None:
    """Return which printed line this is, from one of them on."""
    for place in range(start, len(printed)):
        if printed[place].at > line.at:
            return None
        if printed[place].text == line.text:
            return place
    return None


def _fault(printed: Sequence[Line], line: Line, times: int) -> str:
    """Return the rule that a line breaks; `times` is how often it has been shown with this."""
    until = [one.text for one in printed if one.at < line.at]
    if line.text in until:
        return "lines_once" if times > until.count(line.text) else "lines_in_order"
    pieces = any(line.text in one or (one and one in line.text) for one in until)
    return "lines_whole" if pieces else "lines_printed"


def _missing(facts: Facts, rank: int, printed: Sequence[Line], seen: set[int]) -> Iterator[Problem]:
    """Return the lines that were not shown, in the middle of a round's output or at its end."""
    for number in sorted({one.round for one in printed}):
        places = [place for place, one in enumerate(printed) if one.round == number]
        last = max((place for place in places if place in seen), default=-1)
        host = _host(facts, rank, number)
        for rule, lost in (
            ("no_middle_lost", [n for n in places if n < last and n not in seen]),
            ("end_shown", [n for n in places if n > last]),
        ):
            if lost:
                first = printed[lost[0]]
                text = f"rank {rank}, round {number}: {len(lost)} not shown, from {first.text!r} on"
                yield facts.problem(rule, text, first.at, host, rank)


def _host(facts: Facts, rank: int, number: int) -> str:
    """Return the host of a rank in a round."""
    found = (one.host for one in facts.workers if (one.rank, one.round) == (rank, number))
    return next(found, "")
