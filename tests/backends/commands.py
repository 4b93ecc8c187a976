"""Commands of backends, run as shell scripts on a loop until they end."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from dsrun.launcher.backends.base import Dial
from dsrun.launcher.backends.events import EngineEnded, SessionEnded
from dsrun.launcher.common.loop import Loop

from ..support.limits import HANG

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dsrun.launcher.backends.base import Backend
    from dsrun.launcher.backends.events import BackendEvent
    from dsrun.launcher.specs.plan import Node

DIAL = Dial("10.0.0.1:7", "PIN")


def install(folder: Path, name: str, text: str) -> None:
    """Write a program that is this shell script."""
    program = folder / name
    program.write_text(f"#!/bin/sh\n{text}\n")
    program.chmod(0o755)


def events(backend: Backend, *starts: Sequence[Node], ends: int = 1) -> list[BackendEvent]:
    """Return what a backend emits until this many sessions or engines have ended."""
    loop = Loop()
    found: list[BackendEvent] = []

    def emit(event: BackendEvent) -> None:
        found.append(event)
        if sum(isinstance(one, SessionEnded | EngineEnded) for one in found) == ends:
            loop.stop()

    late = loop.call_later(HANG, loop.stop)
    for nodes in starts:
        backend.start(nodes, loop, emit, DIAL)
    loop.run()
    backend.close()
    assert late.call is not None, f"nothing has ended: {found}"
    return found
