"""Reports rejected callers: at most one line per second, and a total at the end."""

from __future__ import annotations

from collections import Counter

from ...common.text import plain
from ...common.wording import counted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ...common.loop import Loop, Timer

NO_PROOF = "no proof"

EVERY = 1.0
"""Seconds between two lines."""

MOST_SOURCES = 4096
"""Sources that are counted separately; callers from others are counted together."""

MOST_REASONS = 3
"""Reasons in one line."""

LONGEST = 200
"""Characters of one reason in a line."""

OTHERS = "other addresses"


class Rejected(Exception):
    """A caller is rejected; the text says why."""


class Rejections:
    """Counts rejected callers by source.

    Attributes:
        counts: rejected callers so far, by source.
    """

    def __init__(self, loop: Loop, log: Callable[[str], None]) -> None:
        """Start without rejections; `log` prints each line."""
        self._loop = loop
        self._log = log
        self._timer: Timer | None = None
        self._latest: Counter[str] = Counter()
        self._reasons: dict[str, None] = {}
        self.counts: Counter[str] = Counter()

    def add(self, source: str, reason: str) -> None:
        """Count a rejected caller."""
        known = source in self.counts or len(self.counts) < MOST_SOURCES
        name = source if known else OTHERS
        self.counts[name] += 1
        self._latest[name] += 1
        if len(self._reasons) < MOST_REASONS:
            self._reasons[plain(reason)[:LONGEST]] = None
        if self._timer is None:
            self._timer = self._loop.call_later(EVERY, self.flush)

    def flush(self) -> None:
        """Print the callers that were not reported yet."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
            self._log(f"rejected {_words(self._latest)} in the last second: {self._why}")
            self._latest.clear()
            self._reasons.clear()

    @property
    def summary(self) -> str:
        """All rejected callers in one line, "" if there were none."""
        if not self.counts:
            return ""
        return f"rejected during the start: {_words(self.counts)}"

    @property
    def _why(self) -> str:
        return "; ".join(self._reasons)


def _words(counts: Counter[str]) -> str:
    """Return e.g. "312 connections from 10.77.0.9 and 3 from 2 other addresses"."""
    ((source, most),) = counts.most_common(1)
    rest = len(counts) - 1
    more = f" and {counts.total() - most} from {rest} other address" if rest else ""
    return f"{counted(most, 'connection')} from {source}{more}{'es' if rest > 1 else ''}"
