"""The end of all that has come from this process, though it goes on forking.

A process that is killed makes room for another one where a fork bomb runs into a limit. So all are
stopped first: what is stopped forks no more. Signals go through pidfds, and whether a process is
one of ours is read once its pidfd is open: whoever is given its number later gets no signal.
"""

from __future__ import annotations

import os
import signal
import time
from contextlib import contextmanager, suppress

from . import processes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

PATIENCE = 10.0
"""Seconds to stop whoever still forks; then those are killed that have been found."""

GIVE_UP = 30.0
"""Seconds after SIGKILL until a process that does not die is named and left to the kernel."""


def end(spared: Collection[int] = ()) -> set[int]:
    """Stop all descendants until a look finds no other, then kill them.

    What has come through, whoever calls finds among its children when it reaps.

    Args:
        spared: children that are left alone, with all that has come from them.

    Returns:
        the pids of those that were killed: each dies, and none of them need be killed once more.
    """
    ours, met, stopped = {os.getpid()}, set(), set(spared)
    last = time.monotonic() + PATIENCE
    with _urgency():
        while time.monotonic() < last:
            _stop_children(stopped, last)
            new = [one for one in _below(spared) if one not in met]
            if not new:
                break
            for pid, _ in new:
                _send(pid, signal.SIGSTOP, ours)
            met.update(new)
        return {pid for pid in ours - {os.getpid()} if _send(pid, signal.SIGKILL, ours)}


def _stop_children(stopped: set[int], last: float) -> None:
    """Stop children until no other has come: who forks and leaves at once becomes one each time.

    The latest goes first. Such a process is gone again before all of /proc has been read.

    Args:
        stopped: those that need not be, to which the others are added; none of them is reaped here.
        last: when to give up, on the monotonic clock.
    """
    while time.monotonic() < last:
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
def _urgency() -> Iterator[None]:
    """Run before all others, where that is allowed (sched(7)): a fork bomb takes the processor."""
    policy, priority = os.sched_getscheduler(0), os.sched_getparam(0)
    with suppress(OSError):
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
    try:
        yield
    finally:
        with suppress(OSError):
            os.sched_setscheduler(0, policy, priority)


def _below(spared: Collection[int]) -> list[tuple[int, int]]:
    """Return every descendant, parents first: its pid, and its start, which tell it from others."""
    children: dict[int, list[tuple[int, int]]] = {}
    for pid in processes.pids():
        with suppress(OSError):
            fields = processes.stat(pid)
            children.setdefault(int(fields[1]), []).append((pid, int(fields[19])))
    found: list[tuple[int, int]] = []
    parents = [os.getpid()]
    for parent in parents:
        ours = [one for one in children.get(parent, ()) if one[0] not in spared]
        found += ours
        parents += [pid for pid, _ in ours]
    return found


def _send(pid: int, number: int, ours: set[int]) -> bool:
    """Signal a process that is the child of one of ours, and count it in; tells whether it was."""
    with suppress(OSError):  # it has ended, or is another user's
        fd = os.pidfd_open(pid)
        try:
            if processes.parent(pid) in ours:
                ours.add(pid)
                signal.pidfd_send_signal(fd, number)
                return True
        finally:
            os.close(fd)
    return False
