"""The state of one rule in the present round. Pure: lines and times are passed in."""

from __future__ import annotations

import math
import re

from ...common.records import NamedTuple
from ...common.text import plain
from ...head.report.report import NOT_FINITE, duration
from .runner_lines import line_of, matches

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from re import Match

    from ...head.run.events import RankOutput
    from ...specs.policies import Rule

SHOWN = 120
"""Characters of a line that are shown."""

NO_NUMBER = "no number"
"""The fault if the expression has captured something other than a number: no reaction follows."""


class RuleFinding(NamedTuple):
    """A sentence about a rule.

    Attributes:
        broken: whether the rule is broken.
        sign: the fault of a number, as a word; "" if the finding is not about a number.
    """

    text: str
    broken: bool = True
    sign: str = ""


class RuleState:
    """One rule, from round to round.

    A fault in numbers is reported once in a round, a missing line each time it is missed again.
    """

    def __init__(self, rule: Rule) -> None:
        self.rule = rule
        self._pattern = re.compile(rule.expect.encode(), re.MULTILINE)
        self.start(0.0)

    def start(self, now: float) -> None:
        """Restart: workers have been started."""
        self._since = now
        self._last = ""
        self._missing = False
        self._said: set[str] = set()
        self._lows: dict[int, tuple[float, int]] = {}

    def still(self, seconds: float) -> None:
        """Do not count this time: nothing could be read."""
        self._since += seconds

    def take(self, output: RankOutput, lines: bytes, now: float) -> Iterator[RuleFinding]:
        """Examine complete lines of a rank, each with its end."""
        found = matches(self._pattern, lines) if self._counts(output.rank) else ()
        if not found:
            return
        place = f"rank {output.rank} ({output.host})"
        if self._missing:
            after = duration(now - self._since)
            yield self._finding(f"a line from {place} matches again, after {after}", broken=False)
        self._missing, self._since = False, now
        self._last = f"{_shown(found[-1])} from {place}"
        if self.rule.finite or self.rule.falls:
            for one in found:
                yield from self._check(output.rank, place, one)

    def _counts(self, rank: int) -> bool:
        return not self.rule.ranks or rank in self.rule.ranks

    def _check(self, rank: int, place: str, match: Match[bytes]) -> Iterator[RuleFinding]:
        for group, check in ((self.rule.finite, self._finite), (self.rule.falls, self._falls)):
            text = match[int(group) if group.isdecimal() else group] if group else None
            kind, why = check(rank, _number(text)) if text is not None else ("", "")
            if why and kind not in self._said:
                self._said.add(kind)
                name = f"group {group}" if group.isdecimal() else group
                line = f"{name} of {place} {why}: {_shown(match)}"
                yield self._finding(line, kind, broken=kind != NO_NUMBER)

    def _finite(self, _rank: int, value: float | None) -> tuple[str, str]:
        """Return the fault of a number, as a word and as a verb, or ""."""
        if value is None:
            return NO_NUMBER, "is not a number"
        return NOT_FINITE, "" if math.isfinite(value) else f"is {value}"

    def _falls(self, rank: int, value: float | None) -> tuple[str, str]:
        """Like `_finite`, for a number that must reach a new low from time to time."""
        if value is None:
            return NO_NUMBER, "is not a number"
        low, lines = self._lows.get(rank, (math.inf, 0))
        self._lows[rank] = low, lines = (value, 0) if value < low else (low, lines + 1)
        over = self.rule.over
        return "falls", f"has not fallen below {low:g} in {over} lines" if lines >= over else ""

    def _finding(self, text: str, sign: str = "", *, broken: bool = True) -> RuleFinding:
        return RuleFinding(f"{self.rule.name}: {text}", broken, sign)

    @property
    def matched(self) -> bool:
        """True if such a line has appeared in this round."""
        return bool(self._last)

    @property
    def due(self) -> float:
        """The deadline for the next line; infinite if none is required."""
        limit = self.rule.every if self._last else self.rule.within or self.rule.every
        return self._since + limit if limit and not self._missing else math.inf

    def missed(self, now: float) -> Iterator[RuleFinding]:
        """Yield a finding if a line is overdue."""
        if now < self.due:
            return
        limit = duration(self.due - self._since)
        self._missing = True
        text = f"no line has matched '{plain(self.rule.expect)}'"
        since = f"for {limit}; the last was {self._last}"
        since = since if self._last else f"within {limit} of the start of the workers"
        yield self._finding(f"{text} {since}")


def _number(text: bytes) -> float | None:
    """Return a number; programs often print a sign right after it: `2.1,`."""
    try:
        return float(text.rstrip(b",.;:)]}"))
    except ValueError:
        return None


def _shown(match: Match[bytes]) -> str:
    line = line_of(match)
    return f"'{plain(line[:SHOWN])}{'...' if len(line) > SHOWN else ''}'"
