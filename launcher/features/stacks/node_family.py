"""The processes of workers, according to the kernel; none of their memory is read."""

from __future__ import annotations

import os
from contextlib import suppress
from itertools import islice

from ...common import system
from ...common.records import NamedTuple
from ...node.machine.processes import command
from ...node.machine.usage import by_parent, family, read_processes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

MOST = 100
"""Processes of one worker, at most."""

SHOWN = 200
"""Characters of a command line."""


class Member(NamedTuple):
    """One process of a worker; `ProcessState` describes the first of these.

    Attributes:
        python: whether it runs a Python interpreter, by the name of its program.
        tracer: the process that traces it, such as a debugger; 0 for none.
    """

    rank: int
    pid: int
    parent: int
    command: str
    state: str
    waits_in: str
    python: bool
    tracer: int


def families(workers: Iterable[tuple[int, int]], *, children: bool) -> list[Member]:
    """Return the processes of workers, given as (rank, pid): all workers first.

    Without `children`, only the workers themselves.
    """
    below = by_parent(read_processes()) if children else {}
    tree = [(rank, [*islice(family(pid, below), MOST)]) for rank, pid in workers]
    found = [(rank, one) for rank, pids in tree for one in pids[:1]]
    found += [(rank, one) for rank, pids in tree for one in pids[1:]]
    members = []
    for rank, pid in found:
        with suppress(OSError, ValueError):  # it has ended meanwhile
            members.append(_member(rank, pid))
    return members


def _member(rank: int, pid: int) -> Member:
    facts = status(pid)
    state = facts["State"][:1]
    return Member(
        rank=rank,
        pid=pid,
        parent=int(facts["PPid"]),
        # Reading the command line of a process in state D may block as long as the state lasts.
        command=facts["Name"] if state in "DZ" else command(pid, SHOWN) or facts["Name"],
        state=state,
        waits_in=_waits_in(pid),
        python=_is_python(pid),
        tracer=int(facts["TracerPid"]),
    )


def status(pid: int) -> dict[str, str]:
    """Return the kernel's status of a process (/proc/PID/status in proc(5)), {} if it is gone."""
    with system.open_file(f"/proc/{pid}/status", "rb", buffering=0) as file:
        lines = file.read().decode("utf-8", "replace").split("\n")
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}


def _waits_in(pid: int) -> str:
    """Return the kernel function in which a process waits; "" if unknown."""
    with suppress(OSError), system.open_file(f"/proc/{pid}/wchan", "rb", buffering=0) as file:
        name = file.read(100).decode("ascii", "replace")
        return "" if name == "0" else name
    return ""


def _is_python(pid: int) -> bool:
    with suppress(OSError):
        return os.path.basename(system.readlink(f"/proc/{pid}/exe")).startswith(("python", "pypy"))
    return False
