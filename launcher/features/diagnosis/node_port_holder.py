"""Finds the program that holds a port a worker could not listen on, or workers that share it."""

from __future__ import annotations

import os
import re

from ...common.network import lines_of
from ...node.machine import ports, processes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...node.workers.spawn import WorkerSpec

IN_USE = re.compile(r"EADDRINUSE|[Aa]ddress already in use")

_PORT = re.compile(r"(?:\bport[:=]? ?|\]:|\d:|', )(\d{2,5})\b")

NEAR = 600
"""Characters before and after the error that are searched for the port."""

SECONDS = 0.03
"""Seconds of processor time for the search of processes: as root, 150 take 6 ms."""

LONGEST = 80

OWN_PORT = "DSRUN_PORT_"
"""Begins the variables with the ports of a role (`specs.role_words`)."""


def holder(output: str) -> str:
    """Return the holder of the port that the end of a worker's output names, "" if unknown."""
    number = port(output)
    sockets = ports.listeners(number) if number else []
    if not sockets:
        return ""
    pid = ports.holder(sockets[0].inode, SECONDS)
    who = f"pid {pid}, {_user(sockets[0].uid)}" if pid else _user(sockets[0].uid)
    return f"port {number} is held by {_command(pid)} ({who})"


def shared(output: str, spec: WorkerSpec) -> str:
    """Return the workers on this node that share the port in use; "" for fewer than two.

    The port is one that is reserved for their role on the node. If the output names no port, it is
    a port in the command line.

    Args:
        output: the end of a worker's output.
        spec: the worker as it was started.
    """
    env = {os.fsdecode(name): os.fsdecode(value) for name, value in spec.env.items()}
    count, number = int(env.get("LOCAL_WORLD_SIZE", "1")), port(output)
    named = {
        int(value): name.removeprefix(OWN_PORT).lower()
        for name, value in env.items()
        if name.startswith(OWN_PORT)
    }
    told = re.findall(r"\d+", " ".join(map(os.fsdecode, spec.argv)))
    number = number or next((one for one in named if str(one) in told), 0)
    if count < 2 or number not in named or not IN_USE.search(output):
        return ""
    first = spec.rank - int(env.get("LOCAL_RANK", "0"))
    joint, all_of = ("and", "both") if count == 2 else ("to", "all")
    who = f"ranks {first} {joint} {first + count - 1} of {env.get('ROLE_NAME', 'the role')}"
    return f"{who}; {all_of} listen on its port {named[number]} ({number})"


def port(output: str) -> int:
    """Return the port in the last such error, 0 for none. Pure."""
    at = max((match.start() for match in IN_USE.finditer(output)), default=-1)
    if at < 0:
        return 0
    line = output[output.rfind("\n", 0, at) + 1 : at + NEAR].partition("\n")[0]
    around = output[max(0, at - NEAR) : at + NEAR]
    found = _PORT.findall(line) or _PORT.findall(around)
    return next((number for one in found if 0 < (number := int(one)) < 65536), 0)


def _user(uid: int) -> str:
    """Return the name of a user from the machine's own file: a server may not answer."""
    rows = [line.split(":") for line in lines_of("/etc/passwd")]
    return next((f"user {row[0]}" for row in rows if row[2:3] == [f"{uid}"]), f"uid {uid}")


def _command(pid: str) -> str:
    return (processes.command(int(pid), LONGEST) if pid else "") or "another program"
