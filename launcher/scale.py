"""dsrun-scale: another number of nodes for an elastic job that runs on this machine."""

from __future__ import annotations

import json
import socket

from . import runner
from .errors import NodeError, UsageError
from .head import requests

HELP = """\
usage: dsrun-scale JOB N
       dsrun-scale

Has the rounds of an elastic job that was started on this machine, by the same user, take at most N
nodes from now on: within its --min_elastic_nodes and --max_elastic_nodes. Those beyond N become
spares, which are ready to take part again. Without arguments: the jobs there are.
"""

PATIENCE = 10.0
"""Seconds for an answer."""


def run(words: list[str]) -> int:
    """Do what these words of a command line ask for; returns the exit code.

    Raises:
        UsageError: they cannot be meant, or the job does not want it.
        NodeError: the job does not answer.
    """
    if words[:1] in (["-h"], ["--help"]):
        runner.write(HELP)
    elif not words:
        runner.write("".join(f"{job}\n" for job in _jobs()))
    else:
        runner.write(f"dsrun-scale: {_ask(*_understood(words))}\n")
    return 0


def start() -> None:
    """Run as a process of its own: what the command `dsrun-scale` calls."""
    runner.start(act=run)


def _understood(words: list[str]) -> tuple[str, int]:
    if len(words) != 2:
        raise UsageError("dsrun-scale: expected JOB N; see dsrun-scale -h")
    job, number = words
    if not (number.isascii() and number.isdigit()):
        raise UsageError(f"dsrun-scale: {number!r} is no number of nodes")
    return job, int(number)


def _jobs() -> list[str]:
    """Return this user's jobs that can be asked, by the names of their sockets.

    Source: proc_net(5); the name of an abstract socket is shown behind an `@`.
    """
    start = f"@{requests.name()}"
    with open("/proc/net/unix", encoding="ascii", errors="replace") as file:
        names = {line.split()[-1] for line in file}
    return sorted(name.removeprefix(start) for name in names if name.startswith(start))


def _ask(job: str, nodes: int) -> str:
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as line:
        line.settimeout(PATIENCE)
        try:
            line.connect(f"\0{requests.name(job)}")
        except OSError:
            known = ", ".join(_jobs()) or "none"
            raise UsageError(f"dsrun-scale: no elastic job {job} here; known: {known}") from None
        try:
            line.send(json.dumps({"nodes": nodes}).encode())
            answer = json.loads(line.recv(requests.LIMIT))
        except (OSError, ValueError):
            raise NodeError(f"dsrun-scale: job {job} does not answer") from None
    if not answer["done"]:
        raise UsageError(f"dsrun-scale: {answer['words']}")
    return str(answer["words"])
