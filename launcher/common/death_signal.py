"""A signal to a child when this process ends, until it is cancelled.

PR_SET_PDEATHSIG of prctl(2) cannot be set for another process, nor be cancelled from outside.
Instead this uses signal-driven input (O_ASYNC in fcntl(2)): the child's standard input is a pipe to
which nothing is written. When this process ends, in any way, the kernel closes the other end,
and signals the child.
"""

from __future__ import annotations

import fcntl
import os


class DeathSignal:
    """The kernel sends a child this signal when the writing end of its standard input is closed."""

    def __init__(self, stdin: int, number: int) -> None:
        """Prepare the signal, before the child is started.

        Args:
            stdin: the reading end of the pipe that will be its standard input.
            number: the number of the signal.

        Raises:
            OSError: there is no descriptor left.
        """
        self._fd = os.dup(stdin)  # shares flags and owner with the child's
        self._flags = fcntl.fcntl(self._fd, fcntl.F_GETFL)
        fcntl.fcntl(self._fd, fcntl.F_SETSIG, number)
        fcntl.fcntl(self._fd, fcntl.F_SETFL, self._flags | os.O_ASYNC)

    def send_to(self, pid: int) -> None:
        """Name the child, which has not been reaped yet."""
        fcntl.fcntl(self._fd, fcntl.F_SETOWN, pid)

    def cancel(self) -> None:
        """Cancel the signal; may be called twice."""
        if self._fd >= 0:
            fcntl.fcntl(self._fd, fcntl.F_SETFL, self._flags)
            os.close(self._fd)
            self._fd = -1
