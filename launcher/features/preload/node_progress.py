"""Progress of an import: one that hardly uses the processor and reads nothing counts as hung."""

from __future__ import annotations

import os
from contextlib import suppress

from ...common.network import lines_of
from ...common.records import NamedTuple
from ...node.machine import processes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

EVERY = 1.0
"""Seconds between two checks."""

STILL = 10
"""Number of checks without progress that end an import."""

MOST = 120
"""Number of checks that end an import even if it makes progress."""

LEAST = 0.1
"""Seconds of processor time that count as progress: a process that polls uses less."""

READ = ("rchar", "read_bytes")
"""Lines of /proc/PID/io that count bytes read: from any file, and from disks."""


class ProcessActivity(NamedTuple):
    """The activity of a process so far.

    Attributes:
        seconds: processor time, including children.
        reads: counts of page faults that needed a disk, and of bytes read.
    """

    seconds: float
    reads: tuple[str, ...] = ()


class PreloadProgress:
    """Counts checks, not seconds, as the whole job may be stopped for a time."""

    def __init__(self, activity: Callable[[], ProcessActivity]) -> None:
        """Check the progress that `activity` returns."""
        self._activity = activity
        self._last = ProcessActivity(-LEAST)
        self._checks = 0
        self._still = 0

    def check(self) -> str:
        """Check once; return why the import must end, "" if it may continue."""
        now, self._checks = self._activity(), self._checks + 1
        if now.reads != self._last.reads or now.seconds >= self._last.seconds + LEAST:
            self._last, self._still = now, 0
        else:
            self._still += 1
        if self._still >= STILL:
            return f"the import made no progress for {STILL * EVERY:.0f} s"
        return f"the import took longer than {MOST * EVERY:.0f} s" if self._checks >= MOST else ""


def activity(pid: int) -> ProcessActivity:
    """Return the activity of a process (proc(5), stat and io)."""
    ticks, faults = 0, "0"
    with suppress(OSError):  # it has ended
        fields = processes.stat(pid)
        ticks, faults = sum(map(int, fields[11:15])), fields[9]
    # This may be forbidden.
    read = (line for line in lines_of(f"/proc/{pid}/io") if line.startswith(READ))
    return ProcessActivity(ticks / os.sysconf("SC_CLK_TCK"), (faults, *read))
