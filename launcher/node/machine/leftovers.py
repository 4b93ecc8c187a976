"""Processes left behind by a job whose guard was killed as well."""

from __future__ import annotations

import re

from ...common import system
from . import processes

LAUNCHER = b"DSRUN_NODE_LAUNCHER"
"""The variable that names a worker's node launcher and guard, by the `identity` of each."""

_OWNERS = re.compile(rb"(\d{1,9}):(\d{1,20})(?:,(\d{1,9}):(\d{1,20}))?")
"""The digits are limited to the kernel's largest numbers; any other text is ignored."""


def identity(pid: int) -> str:
    """Return the pid and the start time of a process, in the format of the variable."""
    return f"{pid}:{processes.started(pid)}"


def leftovers() -> list[int]:
    """Return the processes of this user whose guard is gone.

    Their job left them behind: the guard ends the leftovers of a dead node launcher, and a node
    launcher ends with its guard, unless it is stopped or stuck. The sessions of this process and of
    its ancestors are skipped: a batch job submitted by a worker inherits the worker's environment.
    """
    left = [*filter(is_left, processes.pids())]
    ours = {*map(processes.session, processes.line_of(system.getpid()))} if left else set()
    return [pid for pid in left if processes.session(pid) not in ours]


def is_left(pid: int) -> bool:
    """Return whether this process is a leftover of a job, and not of this node launcher's."""
    owners = owners_of(pid)
    alive = {one for one, start in owners if processes.started(one) == start}
    if not owners or alive & {owners[-1][0], system.getpid()}:
        return False  # nearly always, and decided by one or two files
    began = processes.started(pid)
    return (
        owners == owners_of(pid)
        and processes.is_own(pid)
        and numbered_as_here(pid)
        # A node launcher ends after its workers, and the process may be a worker.
        and began == processes.started(pid) != 0
    )


def numbered_as_here(pid: int) -> bool:
    """Return whether a process is in this pid namespace; processes in containers are not."""
    try:
        return system.readlink(f"/proc/{pid}/ns/pid") == system.readlink("/proc/self/ns/pid")
    except OSError:
        return False


def launcher_of(pid: int) -> tuple[int, int] | None:
    """Return pid and start time of the node launcher that started a process, or None."""
    return next(iter(owners_of(pid)), None)


def owners_of(pid: int) -> list[tuple[int, int]]:
    """Return pid and start time of a process's node launcher and guard, if they are named."""
    return owners_in(environ_of(pid))


def owners_in(environ: bytes) -> list[tuple[int, int]]:
    """Return the owners named in an environment, which the process can forge. Pure."""
    found = _OWNERS.fullmatch(_value(environ, LAUNCHER))
    numbers = [int(one) for one in found.groups() if one] if found else []
    return [*zip(numbers[::2], numbers[1::2], strict=True)]


def variable(pid: int, name: bytes) -> bytes:
    """Return a variable of a process's initial environment; b"" if it is missing or unreadable."""
    return _value(environ_of(pid), name)


def environ_of(pid: int) -> bytes:
    """Return the initial environment of a process; b"" if it is unreadable.

    Processes of other users are not read: their environment may be arbitrarily long (PR_SET_MM in
    prctl(2)).
    """
    try:
        if system.stat(f"/proc/{pid}").st_uid != system.geteuid():
            return b""
        with system.open_file(f"/proc/{pid}/environ", "rb", buffering=0) as file:
            return file.read()
    except OSError:
        return b""


def _value(environ: bytes, name: bytes) -> bytes:
    return (b"\0" + environ).partition(b"\0" + name + b"=")[2].partition(b"\0")[0]
