"""Waiting for descriptors outside of the loop.

By poll(2): select(2) takes no number from 1024 on (FD_SETSIZE), and a job of many nodes, or a
program that uses dsrun, has so many open.
"""

from __future__ import annotations

import select

from . import system

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

READ, WRITE = select.POLLIN, select.POLLOUT


def ready(fds: Iterable[int], seconds: float | None, event: int = READ) -> list[int]:
    """Wait until one of these descriptors is ready; return those that are.

    One at its end, or broken, is ready: reading it tells.

    Args:
        fds: the descriptors.
        seconds: how long to wait; None for no limit, 0 for a look.
        event: `READ` or `WRITE`.
    """
    poll = system.poll()
    for fd in fds:
        poll.register(fd, event)
    return [fd for fd, _ in poll.poll(None if seconds is None else max(0.0, seconds) * 1000)]
