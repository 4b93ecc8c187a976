"""Hosts that cannot be reached: one line for many, and few lines."""

from __future__ import annotations

from .hosts import by_cause

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ...common.loop import Loop

NO_MESSAGE = "its node launcher exited without an error message"
"""The cause where a session has ended like any other, but too early."""

FIRST = 0.5
"""Seconds for which failures are gathered before the first line."""

SECOND = 5.0
"""Seconds from the first line to the next; each is followed by twice as long a silence."""

LONGEST = 60.0
"""Seconds between two lines at most."""


class UnreachedNodes:
    """Tells of hosts, each with the cause, now and then."""

    def __init__(self, loop: Loop, log: Callable[[str], None]) -> None:
        """Have nothing to tell."""
        self._loop = loop
        self._log = log
        self._causes: dict[str, str] = {}
        self._quiet = True
        self._pause = SECOND

    def add(self, host: str, cause: str) -> None:
        """Take in one more; what is said of it follows soon."""
        self._causes[host] = cause
        if self._quiet:
            self._quiet, self._pause = False, SECOND
            self._loop.call_later(FIRST, self._report)

    def _report(self) -> None:
        self._quiet = not self._causes
        if self._causes:
            self._log(folded(self._causes))
            self._causes = {}
            self._loop.call_later(self._pause, self._report)
            self._pause = min(LONGEST, 2 * self._pause)


def folded(causes: Mapping[str, str]) -> str:
    """Return one line for hosts with their causes; of several causes the first has to do."""
    lines = by_cause(causes)
    if len(lines) == 1:
        return lines[0]
    first, *_, last = causes
    return f"{len(causes)} hosts could not be reached: {first} .. {last}: {causes[first]}"
