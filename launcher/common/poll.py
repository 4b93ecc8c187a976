"""Waiting for descriptors outside of the loop.

It uses poll(2): select(2) cannot handle descriptors from 1024 on (FD_SETSIZE), which occur in jobs
of many nodes and in programs that use dsrun.
"""

from __future__ import annotations

import select

from . import system

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

READ, WRITE = select.POLLIN, select.POLLOUT


def ready(fds: Iterable[int], seconds: float | None, event: int = READ) -> list[int]:
    """Wait until one of these descriptors is ready; return the ready ones.

    A descriptor at its end, or with an error, is ready: reading it shows why.

    Args:
        fds: the descriptors.
        seconds: the time to wait; None for no limit, 0 for no wait.
        event: `READ` or `WRITE`.
    """
    poll = system.poll()
    for fd in fds:
        poll.register(fd, event)
    return [fd for fd, _ in poll.poll(None if seconds is None else max(0.0, seconds) * 1000)]
