"""dsrun-scale: another number of nodes for an elastic job that runs on this machine."""

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
    """Do what these words of a command line ask for; returns the exit code.

    Raises:
        UsageError: they cannot be meant, or the job does not want it.
        NodeError: the job does not answer.
    """
    if words[:1] in (["-h"], ["--help"]):
        from ..cli.help.pages import of_tool

        entry.write(of_tool("dsrun-scale"))
    elif not words:
        entry.write("".join(f"{job}\n" for job in _jobs()))
    else:
        entry.write(f"dsrun-scale: {plain(_ask(*_understood(words)))}\n")
    return 0


def start() -> None:
    """Run as a process of its own: what the command `dsrun-scale` calls."""
    entry.start(run)


def _understood(words: list[str]) -> tuple[str, int]:
    if len(words) != 2:
        raise UsageError("dsrun-scale: expected JOB N; see dsrun-scale -h")
    job, number = words
    if not re.fullmatch("[0-9]{1,7}", number):
        raise UsageError(f"dsrun-scale: {number[:20]!r} is no number of nodes")
    return job, int(number)


def _jobs() -> list[str]:
    """Return this user's jobs that can be asked, by the names of their sockets.

    Anybody may bind a name, with any character in it; only a job's own socket is listened to.

    Source: proc_net(5); the name of an abstract socket is shown behind an `@`.
    """
    named = re.compile(rf" @{scale_socket.name()}({scale_socket.JOB})$")
    with open("/proc/net/unix", encoding="ascii", errors="replace") as file:
        names = {found[1] for found in map(named.search, file) if found}
    return sorted(job for job in names if _is_there(job))


def _is_there(job: str) -> bool:
    line = _reached(job)
    if line is not None:
        line.close()
    return line is not None


def _reached(job: str) -> socket.socket | None:
    """Return a line to a job; None where there is none, or it is a stranger who listens there."""
    line = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    line.settimeout(PATIENCE)
    try:
        line.connect(f"\0{scale_socket.name(job)}")
        if scale_socket.trusted(line):
            return line
    except OSError:
        pass
    line.close()
    return None


def _ask(job: str, nodes: int) -> str:
    line = _reached(job) if re.fullmatch(scale_socket.JOB, job) else None
    if line is None:
        known = ", ".join(_jobs()) or "none"
        raise UsageError(f"dsrun-scale: no elastic job {job[:40]} here; known: {known}")
    with line:
        done, words = _answer(line, job, {"nodes": nodes})
    if not done:
        raise UsageError(f"dsrun-scale: {words}")
    return words


def _answer(line: socket.socket, job: str, request: dict[str, Any]) -> tuple[bool, str]:
    """Return whether a job has done what it was asked, and what it says of it."""
    try:
        line.send(json.dumps(request).encode())
        answer = json.loads(line.recv(scale_socket.LIMIT))
        done, words = answer["done"], answer["words"]
    except (OSError, ValueError, RecursionError, LookupError, TypeError):
        done = words = None
    if not isinstance(done, bool) or not isinstance(words, str):
        raise NodeError(f"dsrun-scale: job {job} does not answer")
    return done, words
