"""Commands of backends, run as shell scripts on a loop until they end."""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from dsrun.launcher.backends.base import DialBack
from dsrun.launcher.backends.events import (
    EngineEnded,
    SessionEnded,
    SessionOutput,
    SessionsBegun,
)
from dsrun.launcher.common.loop import Loop

from ..support.limits import HANG

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dsrun.launcher.backends.base import Backend
    from dsrun.launcher.backends.events import BackendEvent
    from dsrun.launcher.specs.plan import Node

DIAL = DialBack("10.0.0.1:7", "PIN")


def install(folder: Path, name: str, text: str) -> None:
    """Write a program that is this shell script."""
    program = folder / name
    program.write_text(f"#!/bin/sh\n{text}\n")
    program.chmod(0o755)


def nothing_left(loop: Loop) -> bool:
    """Return whether a loop waits for nothing more."""
    return not loop._calls and not len(loop._timers)


def go_on(loop: Loop, done: Callable[[], bool] | None = None) -> None:
    """Run a loop until something holds: by default, until it waits for nothing more."""
    holds = done or partial(nothing_left, loop)
    end = time.monotonic() + HANG

    def look() -> None:
        assert time.monotonic() < end, "it goes on for ever"
        if holds():
            loop.stop()
        else:
            loop.call_later(0.003, look)

    loop.call_later(0.0, look)
    loop.run()


def events(backend: Backend, *starts: Sequence[Node], ends: int = 1) -> list[BackendEvent]:
    """Return what a backend emits until this many sessions or engines have ended, and then.

    What only tells how far sessions without a stream have come is left out: see `progress`.
    """
    found = all_events(backend, *starts, ends=ends)
    return [one for one in found if not isinstance(one, SessionsBegun | SessionOutput)]


def progress(backend: Backend, *starts: Sequence[Node], ends: int = 1) -> list[BackendEvent]:
    """Return the other events: how far sessions without a stream come."""
    found = all_events(backend, *starts, ends=ends)
    return [one for one in found if isinstance(one, SessionsBegun | SessionOutput)]


def all_events(backend: Backend, *starts: Sequence[Node], ends: int = 1) -> list[BackendEvent]:
    """Return all of what a backend emits until then."""
    loop = Loop()
    found: list[BackendEvent] = []
    for nodes in starts:
        backend.start(nodes, loop, found.append, DIAL)
    go_on(loop, lambda: sum(isinstance(one, SessionEnded | EngineEnded) for one in found) >= ends)
    backend.close()
    go_on(loop)
    return found
