"""A function that may block for good, such as a question to a driver, called in a forked child."""

from __future__ import annotations

import json
import os
import signal
from contextlib import suppress

from . import processes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


def call_apart(function: Callable[[], object]) -> tuple[int, int]:
    """Call a function in a child; return the child's pid, and a pipe with the result as JSON.

    The pipe ends without a whole result if the function raises, or the child is killed. It does
    not outlive this process.

    Raises:
        OSError: there is no room for another process, or no descriptor left.
    """
    ours, theirs = os.pipe2(os.O_CLOEXEC)
    parent = os.getpid()
    try:
        pid = os.fork()
    except OSError:
        os.close(ours)
        os.close(theirs)
        raise
    if pid == 0:
        _answer(function, theirs, parent)
    os.close(theirs)
    return pid, ours


def _answer(function: Callable[[], object], fd: int, parent: int) -> None:
    """Write the result, and end; never returns."""
    try:
        signal.set_wakeup_fd(-1)  # the pipe is the parent's as well
        processes.die_with_parent(signal.SIGKILL)
        # If this process hangs, the runner must still see when the node launcher has ended.
        for other in {*map(int, os.listdir("/proc/self/fd"))} - {fd}:
            with suppress(OSError):  # the one that has listed them
                os.close(other)
        if os.getppid() == parent:
            with open(fd, "w", encoding="utf-8") as pipe:
                json.dump(function(), pipe)
    finally:
        os._exit(0)
