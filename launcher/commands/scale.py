"""dsrun-scale: change the number of nodes of an elastic job started on this machine."""

from __future__ import annotations

import json
import re
import socket

from ..common import entry
from ..common.errors import NodeError, UsageError
from ..common.text import plain
from ..head.elastic import scale_socket

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

PATIENCE = 10.0
"""Seconds for an answer."""


def run(words: list[str]) -> int:
    """Run the command with these arguments; return the exit code.

    Raises:
        UsageError: an argument is not valid, or the job refuses.
        NodeError: the job does not answer.
    """
    if words[:1] in (["-h"], ["--help"]):
        from ..cli.help.pages import of_tool

        entry.write(of_tool("dsrun-scale"))
    elif not words:
        entry.write("".join(f"{job}\n" for job in _jobs()))
    else:
        entry.write(f"dsrun-scale: {plain(_ask(*_parse(words)))}\n")
    return 0


def start() -> None:
    """Run the command `dsrun-scale` and exit."""
    entry.start(run)


def _parse(words: list[str]) -> tuple[str, int]:
    if len(words) != 2:
        raise UsageError("dsrun-scale: expected JOB N; see dsrun-scale -h")
    job, number = words
    if not re.fullmatch("[0-9]{1,7}", number):
        raise UsageError(f"dsrun-scale: expected a number of nodes, not {number[:20]!r}")
    return job, int(number)


def _jobs() -> list[str]:
    """Return this user's elastic jobs on this machine, by the names of their sockets.

    Any user can bind any name, so only sockets of this user's jobs count.

    Source: proc_net(5); the name of an abstract socket is shown after an `@`.
    """
    named = re.compile(rf" @{scale_socket.name()}({scale_socket.JOB})$")
    with open("/proc/net/unix", encoding="ascii", errors="replace") as file:
        names = {match[1] for match in map(named.search, file) if match}
    return sorted(job for job in names if _is_running(job))


def _is_running(job: str) -> bool:
    connection = _connect(job)
    if connection is not None:
        connection.close()
    return connection is not None


def _connect(job: str) -> socket.socket | None:
    """Connect to a job; return None if there is none, or another user listens there."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    connection.settimeout(PATIENCE)
    try:
        connection.connect(f"\0{scale_socket.name(job)}")
        if scale_socket.trusted(connection):
            return connection
    except OSError:
        pass
    connection.close()
    return None


def _ask(job: str, nodes: int) -> str:
    connection = _connect(job) if re.fullmatch(scale_socket.JOB, job) else None
    if connection is None:
        running = ", ".join(_jobs()) or "none"
        raise UsageError(
            f"dsrun-scale: no elastic job {job[:40]} on this machine; running: {running}"
        )
    with connection:
        done, words = _answer(connection, job, {"nodes": nodes})
    if not done:
        raise UsageError(f"dsrun-scale: {words}")
    return words


def _answer(connection: socket.socket, job: str, request: dict[str, Any]) -> tuple[bool, str]:
    """Send a request to a job; return whether it was granted, and the job's message."""
    try:
        connection.send(json.dumps(request).encode())
        answer = json.loads(connection.recv(scale_socket.LIMIT))
        done, words = answer["done"], answer["words"]
    except (OSError, ValueError, RecursionError, LookupError, TypeError):
        done = words = None
    if not isinstance(done, bool) or not isinstance(words, str):
        raise NodeError(f"dsrun-scale: job {job} does not answer")
    return done, words
