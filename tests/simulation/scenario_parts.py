"""What scenarios have in common; see `scenarios.py`."""

from __future__ import annotations

import errno
import select
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from collections.abc import Callable

IN, OUT = select.EPOLLIN, select.EPOLLOUT

PAUSE = 0.2
"""Seconds in which a scenario lets something happen."""


def failure(call: Callable[..., object], *args: Any) -> str:
    """Return which error a call raises, "" for none."""
    try:
        call(*args)
    except OSError as problem:
        return f"{type(problem).__name__} {errno.errorcode[problem.errno or 0]}"
    return ""


def fork(s: Any, run: Callable[[], object]) -> int:
    """Start a child that calls something and ends."""

    def child() -> NoReturn:
        run()
        s.exit_now(0)
        raise AssertionError

    return int(s.fork(child))


def record(number: int, frame: object) -> None:
    """Handle a signal."""


def wait_for_events(s: Any, fd: int, events: int) -> None:
    """Wait until a descriptor is ready."""
    poll = s.poll()
    poll.register(fd, events)
    poll.poll()
