"""Processes left behind by a job whose guard was killed as well."""

from __future__ import annotations

import re

from ...common import system
from . import processes

LAUNCHER = b"DSRUN_NODE_LAUNCHER"
"""The variable by which every worker knows its node launcher and the guard: `identity` of each."""

_OWNERS = re.compile(rb"(\d{1,9}):(\d{1,20})(?:,(\d{1,9}):(\d{1,20}))?")
"""As many digits as the kernel's numbers have: anything else is nobody's."""


def identity(pid: int) -> str:
    """Return a process as the variable has it: pid and start time."""
    return f"{pid}:{processes.started(pid)}"


def leftovers() -> list[int]:
    """Return the processes of this user whose node launcher and guard are gone.

    Such a process was left behind by a job. While the guard runs, it ends what a dead node launcher
    has left. The sessions of this process and of those above it do not count: a batch job that a
    worker has submitted has the worker's environment.
    """
    ours = {*map(processes.session, processes.line_of(system.getpid()))}
    found = (pid for pid in processes.pids() if is_left(pid))
    return [pid for pid in found if processes.session(pid) not in ours]


def is_left(pid: int) -> bool:
    """Return whether a process is one of these."""
    began = processes.started(pid)
    return (
        bool(owners := owners_of(pid))
        and processes.is_own(pid)
        and not any(processes.started(one) == start for one, start in owners)
        and numbered_as_here(pid)
        # A node launcher ends after its workers, of which this may have been one.
        and began == processes.started(pid) != 0
    )


def numbered_as_here(pid: int) -> bool:
    """Return whether a process has the pid namespace of this one; those in containers do not."""
    try:
        return system.readlink(f"/proc/{pid}/ns/pid") == system.readlink("/proc/self/ns/pid")
    except OSError:
        return False


def launcher_of(pid: int) -> tuple[int, int] | None:
    """Return pid and start time of the node launcher that has started a process, if one has."""
    return next(iter(owners_of(pid)), None)


def owners_of(pid: int) -> list[tuple[int, int]]:
    """Return the same of the node launcher and of its guard, as far as they are named."""
    return owners_in(environ_of(pid))


def owners_in(environ: bytes) -> list[tuple[int, int]]:
    """Return the same of an environment, which its process decides. Pure."""
    found = _OWNERS.fullmatch(_value(environ, LAUNCHER))
    numbers = [int(one) for one in found.groups() if one] if found else []
    return [*zip(numbers[::2], numbers[1::2], strict=True)]


def variable(pid: int, name: bytes) -> bytes:
    """Return a variable that a process was started with; b"" without it, or if it is unreadable."""
    return _value(environ_of(pid), name)


def environ_of(pid: int) -> bytes:
    """Return what a process was started with; b"" if it is unreadable.

    Nothing is read of other users' processes: they decide how long it is (PR_SET_MM in prctl(2)).
    """
    try:
        if system.stat(f"/proc/{pid}").st_uid != system.geteuid():
            return b""
        with system.open_file(f"/proc/{pid}/environ", "rb", buffering=0) as file:
            return file.read()
    except OSError:
        return b""


def _value(environ: bytes, name: bytes) -> bytes:
    environ = b"\0" + environ
    at = environ.find(b"\0" + name + b"=")
    return environ[at + len(name) + 2 :].partition(b"\0")[0] if at >= 0 else b""
