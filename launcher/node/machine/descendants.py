"""Ends all descendants of this process, even if they keep forking.

If a fork bomb has reached a limit, every process that is killed makes room for another. So all are
stopped first: a stopped process does not fork. Signals are sent through pidfds, and whether a
process is a descendant is checked after its pidfd is open. A process that reuses the pid later gets
no signal.
"""

from __future__ import annotations

import os
import signal
from contextlib import contextmanager, suppress

from ...common import system
from . import processes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

PATIENCE = 10.0
"""Seconds to stop processes that keep forking; then those found so far are killed."""

GIVE_UP = 30.0
"""Seconds after SIGKILL until a process that does not end is reported and left to the kernel."""


def kill_all(spared: Collection[int] = ()) -> set[int]:
    """Stop all descendants until no new one appears, then kill them.

    A process that escapes becomes a child of this process, which later reaps it.

    Args:
        spared: children that are left alone, with all their descendants.

    Returns:
        the pids of the killed processes, which need no further signal.
    """
    ours, seen, stopped = {system.getpid()}, set(), set(spared)
    last = system.monotonic() + PATIENCE
    with _realtime():
        while system.monotonic() < last:
            _stop_children(stopped, last)
            new = [one for one in _below(spared) if one not in seen]
            if not new:
                break
            for pid, _ in new:
                _send(pid, signal.SIGSTOP, ours)
            seen.update(new)
        return {pid for pid in ours - {system.getpid()} if _send(pid, signal.SIGKILL, ours)}


def sweep(spared: Collection[int] = ()) -> list[int]:
    """End all remaining processes below this one, except for the spared children, and reap them.

    SIGCHLD is blocked from now on.

    Returns:
        the pids of the processes that have not ended after SIGKILL.
    """
    system.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
    last = system.monotonic() + GIVE_UP
    known: set[int] = set()
    processes.reap()
    while left := [pid for pid in processes.children() if pid not in spared]:
        if not known.issuperset(left):
            known = kill_all(spared).union(left)
        ours = [pid for pid in left if processes.send(pid, signal.SIGKILL)]
        patience = max(0.0, last - system.monotonic())
        if not ours or system.sigtimedwait({signal.SIGCHLD}, patience) is None:
            break
        known -= processes.reap().keys()
    return left


def _stop_children(stopped: set[int], last: float) -> None:
    """Stop children until no new one appears.

    If processes fork and exit at once, their children become children of this process, one after
    another. The latest is stopped first: it would be gone before all of /proc has been read.

    Args:
        stopped: pids of children that need not be stopped; stopped ones are added. None of them
            is reaped here.
        last: the time for giving up, on the monotonic clock.
    """
    while system.monotonic() < last:
        new = [pid for pid in reversed(processes.children()) if pid not in stopped]
        for pid in new:
            processes.send(pid, signal.SIGSTOP)
        stopped.update(new)
        if not new:
            break


def pids() -> list[int]:
    """Return the pids of all descendants."""
    return [pid for pid, _ in _below(())]


@contextmanager
def _realtime() -> Iterator[None]:
    """Run with priority over all other processes, if allowed (sched(7)), even in a fork bomb."""
    policy, priority = system.sched_getscheduler(0), system.sched_getparam(0)
    with suppress(OSError):
        system.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
    try:
        yield
    finally:
        with suppress(OSError):
            system.sched_setscheduler(0, policy, priority)


def _below(spared: Collection[int]) -> list[tuple[int, int]]:
    """Return every descendant, parents first: its pid and start time, which identify it."""
    children: dict[int, list[tuple[int, int]]] = {}
    for pid in processes.pids():
        with suppress(OSError):
            fields = processes.stat(pid)
            children.setdefault(int(fields[1]), []).append((pid, int(fields[19])))
    below: list[tuple[int, int]] = []
    parents = [system.getpid()]
    for parent in parents:
        ours = [one for one in children.get(parent, ()) if one[0] not in spared]
        below += ours
        parents += [pid for pid, _ in ours]
    return below


def _send(pid: int, number: int, ours: set[int]) -> bool:
    """Signal a process if its parent is in `ours`, and add it; return whether it was signalled."""
    with suppress(OSError):  # the process has ended, or belongs to another user
        fd = system.pidfd_open(pid)
        try:
            if processes.parent(pid) in ours:
                ours.add(pid)
                system.pidfd_send_signal(fd, number)
                return True
        finally:
            system.close(fd)
    return False
