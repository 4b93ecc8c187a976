"""The identity of the process that runs a job; others can tell whether it still runs.

Machines may share a folder, and pids are reused. A process is identified by its machine, the
machine's boot, its PID namespace, its pid and its start time.
"""

from __future__ import annotations

import os
from enum import Enum

from ...common.records import NamedTuple
from ...specs.field_types import Pid, Size

BOOT_ID = "/proc/sys/kernel/random/boot_id"

START_TIME = 19
"""Place of the start time in /proc/PID/stat behind the name of the program (proc_pid_stat(5))."""


class Life(Enum):
    """The known state of a process."""

    RUNS = "runs"
    ENDED = "has ended"
    ELSEWHERE = "cannot be seen from here"


class ProcessIdentity(NamedTuple):
    """The identity of a process, unique for all time and on all machines.

    Attributes:
        machine: the host name.
        boot: the id of the boot of that machine, "" if it has none.
        namespace: the PID namespace.
        start: the start time, in clock ticks since the boot.
    """

    machine: str
    boot: str
    namespace: str
    pid: Pid
    start: Size


def identity(pid: int) -> ProcessIdentity:
    """Return the identity of a process of this user that runs in our PID namespace.

    Raises:
        OSError: there is no such process.
    """
    return ProcessIdentity(os.uname().nodename, _boot(), _namespace(), pid, _start(pid))


def life(known: ProcessIdentity) -> Life:
    """Return whether a process still runs, as far as known on this machine."""
    if known.machine != os.uname().nodename:
        return Life.ELSEWHERE
    if known.boot != _boot():
        return Life.ENDED
    if known.namespace != _namespace():
        return Life.ELSEWHERE
    try:
        return Life.RUNS if _start(known.pid) == known.start else Life.ENDED
    except OSError:
        return Life.ENDED


def _boot() -> str:
    try:
        with open(BOOT_ID, encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return ""


def _namespace() -> str:
    try:
        return os.readlink("/proc/self/ns/pid")
    except OSError:
        return ""


def _start(pid: int) -> int:
    """Return the start time of a process; a zombie counts as ended.

    Raises:
        OSError: there is no such process.
    """
    with open(f"/proc/{pid}/stat", "rb") as file:
        fields = file.read().rpartition(b") ")[2].split()
    if len(fields) <= START_TIME or fields[0] in {b"Z", b"X"}:
        raise ProcessLookupError(pid)
    return int(fields[START_TIME])
