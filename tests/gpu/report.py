"""The files that `make gpu` writes: text for people, and JSON with every command. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from .checks import Outcome, outcome

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from .checks import Check
    from .desk import Ran

KEPT = 6000
"""Characters kept from the end of a command's output."""

WIDTH = 300
"""Characters of an observation in a line for people."""


class Result(NamedTuple):
    """The result of a part.

    Attributes:
        ran: its commands.
    """

    name: str
    seconds: float
    checks: Sequence[Check]
    ran: Sequence[Ran] = ()

    @property
    def outcome(self) -> Outcome:
        """Whether it passed, failed or was skipped."""
        return outcome(self.checks)


def as_text(surroundings: Mapping[str, Any], results: Sequence[Result]) -> str:
    """Return the text for people: the machine, and the parts that failed or were skipped."""
    head = [f"{name}: {value}" for name, value in surroundings.items()]
    lines = [line for result in results for line in lines_of(result)]
    return "\n".join([*head, "", *lines, "", ending(results), ""])


def lines_of(result: Result) -> Iterator[str]:
    """Yield a line for a part, and one for each check that did not pass."""
    passed = sum(one.outcome is Outcome.PASSED for one in result.checks)
    count = f"{passed} of {len(result.checks)} checks"
    yield f"{result.outcome.value:8}{result.name:18}{result.seconds:6.1f} s  {count}"
    for one in result.checks:
        if one.outcome is not Outcome.PASSED:
            seen = " ".join(one.seen.split())[:WIDTH]
            yield f"        {one.outcome.value}: {one.what}: {seen}"


def ending(results: Sequence[Result]) -> str:
    """Return the overall result in one line."""
    named = {
        kind: [one.name for one in results if one.outcome is kind]
        for kind in (Outcome.PASSED, Outcome.FAILED, Outcome.SKIPPED)
    }
    words = [f"{len(named[Outcome.PASSED])} of {len(results)} parts passed"]
    for kind in (Outcome.FAILED, Outcome.SKIPPED):
        if named[kind]:
            words.append(f"{kind.value}: {', '.join(named[kind])}")
    return "; ".join(words)


def as_json(surroundings: Mapping[str, Any], results: Sequence[Result]) -> dict[str, Any]:
    """Return all results with every command, so that they can be analysed elsewhere."""
    return {
        "format": 1,
        "surroundings": surroundings,
        "parts": [
            {
                "name": one.name,
                "outcome": one.outcome.value,
                "seconds": round(one.seconds, 1),
                "checks": [
                    {"what": each.what, "outcome": each.outcome.value, "seen": each.seen}
                    for each in one.checks
                ],
                "commands": [_command(ran) for ran in one.ran],
            }
            for one in results
        ],
    }


def _command(ran: Ran) -> dict[str, Any]:
    return {
        "words": ran.words,
        "code": ran.code,
        "seconds": round(ran.seconds, 1),
        "output": ran.text[-KEPT:],
        "report": ran.report,
    }
