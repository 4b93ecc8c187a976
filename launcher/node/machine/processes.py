"""Kernel calls that Python lacks, and functions for processes and their children."""

from __future__ import annotations

import errno
import os
import re
from contextlib import suppress

from ...common import system
from ...common.network import lines_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_PR_SET_PTRACER = 0x59616D61

_FIELDS = 20
"""Number of fields of /proc/PID/stat from the state to the start time."""

_NUMBER = re.compile(r"-?[0-9]{1,20}")


def adopt_orphans() -> None:
    """Become the parent of every descendant whose own parent ends (prctl(2), child subreaper)."""
    system.prctl(_PR_SET_CHILD_SUBREAPER, 1)


def die_with_parent(number: int) -> None:
    """Request signal `number` at the end of the thread that forked this process (prctl(2)).

    Children do not inherit the request, and the kernel drops it at the exec of a setuid program.
    """
    system.prctl(_PR_SET_PDEATHSIG, number)


def close_all_but(kept: int) -> None:
    """Close all but one descriptor; standard streams then lead to /dev/null."""
    null = system.open_fd(os.devnull, os.O_RDWR)
    for fd in {0, 1, 2} - {kept}:
        system.dup2(null, fd)
    for fd in map(int, system.listdir("/proc/self/fd")):
        if fd > 2 and fd != kept:
            with suppress(OSError):  # the descriptor of /proc/self/fd itself
                system.close(fd)


def allow_reading(pid: int) -> None:
    """Let another process and its children read this process's memory, also after an exec.

    Otherwise only ancestors may do so if kernel.yama.ptrace_scope is 1 (PR_SET_PTRACER in
    prctl(2)).
    """
    with suppress(OSError):  # this kernel has no such restriction
        system.prctl(_PR_SET_PTRACER, pid)


def children() -> list[int]:
    """Return the pids of this process's direct children, zombies included.

    Only children are signalled by pid: their pids cannot be reused before this process reaps them,
    so a signal cannot hit another process.
    """
    try:
        with system.open_file("/proc/thread-self/children", "rb", buffering=0) as file:
            return [int(pid) for pid in file.read().split()]
    except FileNotFoundError:
        # Not every kernel keeps this list (CONFIG_PROC_CHILDREN; gVisor has none).
        me = system.getpid()
        return [pid for pid in pids() if parent(pid) == me]


def reap() -> dict[int, int]:
    """Reap every child that has ended; return the wait status of each, by pid."""
    ended: dict[int, int] = {}
    with suppress(ChildProcessError):
        while (one := system.waitpid(-1, os.WNOHANG))[0]:
            ended.update([one])
    return ended


def send(pid: int, number: int, *, group: bool = False) -> bool:
    """Signal a child of this process, or its group; return False if it belongs to another user.

    A child that has changed its user (sudo, a set-uid file) cannot be signalled.
    """
    try:
        (system.killpg if group else system.kill)(pid, number)
    except PermissionError:
        return False
    except ProcessLookupError:
        return True
    return True


def pids() -> list[int]:
    """Return the pids of all visible processes."""
    return [int(name) for name in system.listdir("/proc") if name.isdigit()]


def last_pid() -> int:
    """Return the latest pid that this process can see (proc(5), loadavg)."""
    with system.open_file("/proc/loadavg", "rb", buffering=0) as file:
        return int(file.read().split()[4])


def newest_first() -> Iterator[int]:
    """Yield the pids of all visible processes, newest first.

    Pids rise, and wrap around. A process that starts in the meantime comes next: even a program
    that forks and exits again and again is found.
    """
    found, last = pids(), last_pid()
    for pid in sorted(found, key=lambda pid: (pid > last, -pid)):
        newest = last_pid()
        if newest != last:
            last = newest
            yield newest
        yield pid


def stat(pid: int) -> list[str]:
    """Return the fields of /proc/PID/stat from the state on (proc(5) counts it as field 3).

    Raises:
        OSError: there is no such process.
    """
    with system.open_file(f"/proc/{pid}/stat", "rb", buffering=0) as file:
        return fields(file.read())


def fields(line: bytes) -> list[str]:
    """Return the fields after the name, which is in brackets and may contain any bytes. Pure.

    Raises:
        OSError: the line has another form.
    """
    found = line.rpartition(b")")[2].decode("ascii", "replace").split()
    if len(found) < _FIELDS or not all(_NUMBER.fullmatch(one) for one in found[1:]):
        raise ProcessLookupError(errno.ESRCH, os.strerror(errno.ESRCH))
    return found


def command(pid: int, longest: int) -> str:
    """Return the beginning of a command line, at most this many characters; "" if unknown.

    The rest is not read: a process can make its command line arbitrarily long (PR_SET_MM,
    prctl(2)).
    """
    try:
        with system.open_file(f"/proc/{pid}/cmdline", "rb", buffering=0) as file:
            words = file.read(4 * longest).decode("utf-8", "replace").split("\0")
    except OSError:
        return ""
    return " ".join(words).strip()[:longest]


def uids(pid: int) -> set[int]:
    """Return all user ids of a process (real, effective, saved), none if it is gone (proc(5))."""
    rows = [line.split() for line in lines_of(f"/proc/{pid}/status")]
    return {int(uid) for row in rows if row[:1] == ["Uid:"] for uid in row[1:]}


def guard_socket(job: str, pid: int) -> str:
    """Return the abstract name of the socket of a job's guard, to which nobody can connect.

    The name helps to find a guard that was stopped, when no other process of its job is left.
    """
    return f"dsrun-guard-{job}-{pid}"


def is_own(pid: int) -> bool:
    """Return whether all user ids of a process are this user's; False for a set-uid program."""
    return uids(pid) == {system.getuid()}


def parent(pid: int) -> int:
    """Return the pid of a process's parent, 0 if it is gone."""
    try:
        return int(stat(pid)[1])
    except OSError:
        return 0


def session(pid: int) -> int:
    """Return the session of a process, 0 if it is gone."""
    try:
        return int(stat(pid)[3])
    except OSError:
        return 0


def line_of(pid: int) -> set[int]:
    """Return the pids of a process and of all its ancestors, except for the first process."""
    line = {pid}
    while (pid := parent(pid)) > 1:
        line.add(pid)
    return line


def stuck(pid: int) -> str:
    """Describe a process that SIGKILL did not end: its user, and where the kernel waits.

    In uninterruptible sleep it waits for a disk or a device; then the text has advice.
    """
    try:
        state = stat(pid)[0]
        with system.open_file(f"/proc/{pid}/wchan", encoding="ascii") as file:
            where = file.read().strip() or "?"
    except OSError:
        state, where = "?", "?"
    text = f"pid {pid}, {_other_user(pid)}state {state}, waiting in {where}"
    if state != "D":
        return text
    return (
        f"{text}{_file_of_call(pid)}: it exits once that disk, server or device answers; check that"
        " and dmesg, or reboot the host"
    )


def _file_of_call(pid: int) -> str:
    """Return the file that a process's system call uses, in words; "" if unknown.

    Most system calls have a descriptor as their first argument (proc(5), `syscall`). No file is
    touched.
    """
    from ...common.text import plain

    try:
        with system.open_file(f"/proc/{pid}/syscall", encoding="ascii") as file:
            descriptor = int(file.read().split()[1], 16)
        path = system.readlink(f"/proc/{pid}/fd/{descriptor}")
    except (OSError, ValueError, IndexError):
        return ""
    return f" for {plain(path)[:200]}" if path.startswith("/") else ""


def _other_user(pid: int) -> str:
    try:
        uid = system.stat(f"/proc/{pid}").st_uid
    except OSError:
        return ""
    return f"of another user ({uid}), " if uid != system.getuid() else ""


def started(pid: int) -> int:
    """Return the start time of a process, in clock ticks since boot; 0 if it has ended.

    Pid and start time together identify a process until the machine is rebooted.
    """
    try:
        fields = stat(pid)
        return 0 if fields[0] in "ZX" else int(fields[19])
    except OSError:
        return 0
