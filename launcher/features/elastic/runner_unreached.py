"""Reports hosts that cannot be reached: many hosts in one line, and few lines."""

from __future__ import annotations

from ...head.fleet.hosts import by_cause

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ...common.loop import Loop, Timers

FIRST = 0.5
"""Seconds for which failures are collected before the first line."""

SECOND = 5.0
"""Seconds from the first line to the second; each further interval is twice as long."""

LONGEST = 60.0
"""Longest interval between two lines in seconds."""


class UnreachedNodes:
    """Prints hosts that could not be reached, with the cause, at growing intervals."""

    def __init__(self, loop: Loop | Timers, log: Callable[[str], None]) -> None:
        """Start without hosts; `log` prints each line."""
        self._loop = loop
        self._log = log
        self._causes: dict[str, str] = {}
        self._quiet = True
        self._pause = SECOND

    def add(self, host: str, cause: str) -> None:
        """Add a host; a message about it follows soon."""
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
    """Return one line for these hosts, with the first of their causes."""
    lines = by_cause(causes)
    if len(lines) == 1:
        return lines[0]
    first, *_, last = causes
    return f"{len(causes)} hosts could not be reached: {first} .. {last}: {causes[first]}"
