"""Whether an import gets on. One that uses no processor and reads nothing hangs."""

from __future__ import annotations

from contextlib import suppress

from ...common.network import lines_of
from .. import processes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

EVERY = 1.0
"""Seconds between two checks."""

STILL = 10
"""Checks without progress after which an import is given up."""

MOST = 120
"""Checks after which it is given up in any case."""


READ = ("rchar", "read_bytes")
"""Lines of /proc/PID/io that count what was read, from whatever file and from disks."""


class Progress:
    """Counts checks, not seconds: time for which the whole job is stopped does not count."""

    def __init__(self, activity: Callable[[], object]) -> None:
        """Check what `activity` returns: a value that is different after progress."""
        self._activity = activity
        self._last: object = None
        self._checks = 0
        self._still = 0

    def check(self) -> str:
        """Check once; return why the import is given up, "" if it is not."""
        now = self._activity()
        self._still = self._still + 1 if now == self._last else 0
        self._last = now
        self._checks += 1
        if self._still >= STILL:
            return f"no progress for {STILL * EVERY:.0f} s"
        return f"not done after {MOST * EVERY:.0f} s" if self._checks >= MOST else ""


def activity(pid: int) -> tuple[str, ...]:
    """Return counts of a process that grow while it works (proc(5)).

    They are major page faults, processor time of it and of its children, and bytes read.
    """
    found: list[str] = []
    with suppress(OSError):  # it has ended
        fields = processes.stat(pid)
        found += [fields[9], *fields[11:15]]
    # This may be forbidden.
    found += [line for line in lines_of(f"/proc/{pid}/io") if line.startswith(READ)]
    return tuple(found)
