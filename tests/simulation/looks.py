"""Looks at a running job: commands on the runner's host that ask it, as dsrun-job does."""

from __future__ import annotations

import json
import select
import socket
from typing import TYPE_CHECKING, Any, cast

from dsrun.launcher.common import system
from dsrun.launcher.control import frames, local
from dsrun.launcher.control.stream import StreamClosed

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from .scenario import Look

REQUESTS: dict[str, Mapping[str, Any]] = {
    "status": {"do": "status", "ranks": True},
    "usage": {"do": "usage"},
    "stacks": {"do": "stacks"},
    "logs": {"do": "logs", "follow": True},
    "signal": {"do": "signal", "number": 12},
    "stop": {"do": "stop", "number": 15},
    "stop now": {"do": "stop", "number": 15, "now": True},
    "nonsense": {"do": "nonsense"},
}
"""What each look asks."""


def look(one: Look, job: str, tell: Callable[[str], None]) -> int:
    """Ask a job; `tell` is told "asked", and "answered", "refused" or "ended"."""
    system.sleep(one.after)
    line = system.plain_socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        line.connect(f"\0{local.address(local.JOB, job)}")
    except OSError:
        return 1
    stream = local.LocalStream(cast("Any", line))
    tell("asked")
    try:
        stream.send(frames.pack_json(frames.REQUEST, {**REQUESTS[one.what], "id": 1}))
        _follow(stream, one.what == "logs", tell)
    except StreamClosed:
        tell("ended")
    stream.close()
    return 0


def _follow(stream: local.LocalStream, to_the_end: bool, tell: Callable[[str], None]) -> None:
    """Read the answer, and what comes after it.

    Raises:
        StreamClosed: the job has ended.
    """
    poll = system.poll()
    poll.register(stream.read_fd, select.POLLIN)
    while True:
        poll.poll()
        for kind, body in stream.receive():
            if kind == frames.ANSWER:
                tell("answered" if json.loads(body)["ok"] else "refused")
                if not to_the_end:
                    return
