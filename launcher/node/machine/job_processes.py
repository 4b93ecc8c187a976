"""Find the leftover processes of a job on this machine, and end them.

A process belongs to a job if it was started with the job's id and with pid and start time of a node
launcher in its environment, as dsrun starts every worker. Names and command lines do not count.
Processes of other users are left alone, even by root: root ends only its own jobs.
Signals are sent through pidfds that were open when the process was checked.
"""

from __future__ import annotations

import os
import re
import signal
from contextlib import suppress
from functools import partial
from itertools import chain

from ...common import system
from ...common.network import lines_of
from ...control.job_messages import EndedJob
from . import leftovers, processes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from ...common.loop import Loop
    from ...control.job_messages import EndJob

LOOK = 0.1
"""Seconds between two searches for processes forked in the meantime, after SIGKILL."""

SWEEPS = 5
"""Number of consecutive searches without a new process before the job counts as gone: a process
that forks and ends at once has another pid each time."""

LAUNCHER_TIME = 2.0
"""Seconds for a guard to end the leftovers of its killed node launcher."""

LOOKS = 50
"""Number of attempts; processes left after that are reported. No time is set, as an attempt may
itself take long."""


class JobProcess:
    """A process, held by a pidfd.

    Attributes:
        text: the process in words.
    """

    def __init__(self, pid: int) -> None:
        """Open the pidfd.

        Raises:
            OSError: there is no such process.
        """
        self.pid = pid
        self.fd = system.pidfd_open(pid)
        self.text = f"pid {pid}{_name(pid)}"

    def send(self, number: int) -> None:
        """Send a signal, unless the process has ended."""
        with suppress(OSError):
            system.pidfd_send_signal(self.fd, number)

    def close(self) -> None:
        """Close its pidfd."""
        system.close(self.fd)


def find(job_id: str) -> Iterator[JobProcess]:
    """Yield the processes of a job, without this process and those above it.

    The newest come first, each at once: a process that forks and ends would soon be gone.
    """
    ours, wanted = processes.line_of(system.getpid()), os.fsencode(job_id)
    for pid in processes.newest_first():
        if pid not in ours and _belongs(pid, wanted):
            yield from _held([pid], lambda pid: _belongs(pid, wanted))


def kill_left(job_id: str) -> list[str]:
    """Kill the processes of a job whose guard is gone; return them as texts.

    Their node launcher, if it is stopped or stuck, would start others as soon as it runs again.
    """
    stopped: dict[int, JobProcess] = {}
    for one in chain.from_iterable(find(job_id) for _ in range(SWEEPS)):
        if one.pid not in stopped and leftovers.is_left(one.pid):
            one.send(signal.SIGSTOP)  # it can no longer fork
            stopped[one.pid] = one
        else:
            one.close()
    for one in (*launchers(stopped.values()), *stopped.values()):
        one.send(signal.SIGKILL)
        one.close()
    return [one.text for one in stopped.values()]


def launchers(found: Iterable[JobProcess]) -> list[JobProcess]:
    """Return the node launchers of these processes that are still running."""
    owners = {leftovers.launcher_of(one.pid) for one in found} - {None}
    started = dict(owner for owner in owners if owner is not None)
    return list(_held(list(started), lambda pid: processes.started(pid) == started[pid]))


def guards(job_id: str) -> Iterator[JobProcess]:
    """Yield the guards of a job on this machine: each has a socket named by the job's id.

    A name proves nothing: the named process must belong to this user, and have that socket.
    """
    ours = processes.line_of(system.getpid())
    row = re.compile(
        rf"(?:\S+ +){{6}}(\d+) @{re.escape(processes.guard_socket(job_id, 0))[:-1]}(\d{{1,9}})"
    )
    for line in lines_of("/proc/net/unix"):
        if (named := row.fullmatch(line)) and (pid := int(named[2])) not in ours:
            yield from _held([pid], partial(_has_open, f"socket:[{named[1]}]"))


def _has_open(file: str, pid: int) -> bool:
    """Return whether a process has a file open, according to the links of its descriptors."""
    folder = f"/proc/{pid}/fd"
    with suppress(OSError):
        return any(system.readlink(f"{folder}/{fd}") == file for fd in system.listdir(folder))
    return False


def _held(pids: list[int], holds: Callable[[int], bool]) -> Iterator[JobProcess]:
    """Yield the processes that fulfil a condition after their pidfd was opened."""
    for pid in pids:
        with suppress(OSError):
            one = JobProcess(pid)
            if holds(pid) and processes.is_own(pid):
                yield one
            else:
                one.close()


def _belongs(pid: int, job_id: bytes) -> bool:
    return (
        leftovers.variable(pid, b"DSRUN_JOB_ID") == job_id
        and leftovers.launcher_of(pid) is not None
        and processes.is_own(pid)
        and leftovers.numbered_as_here(pid)
        and processes.started(pid) != 0
    )


def _name(pid: int) -> str:
    words = " ".join(lines_of(f"/proc/{pid}/comm"))
    return f" ({words})" if words else ""


class JobEnder:
    """Ends one job's processes: first through their node launcher, whose guard misses none."""

    def __init__(self, loop: Loop, order: EndJob, ended: Callable[[EndedJob], None]) -> None:
        """Prepare; `ended` is called once with the outcome."""
        self._loop = loop
        self._order = order
        self._ended = ended
        self._running: dict[int, JobProcess] = {}
        self._gone: list[str] = []
        self._launchers: list[JobProcess] = []
        self._numbers: tuple[int, ...] = (order.number,)
        self._timer = loop.call_later(order.grace, self._kill_launchers)

    def start(self) -> None:
        """Send the first signal to the node launchers, which then stop their workers."""
        found = list(find(self._order.job_id))
        self._launchers = launchers(found)
        if not self._launchers:
            found += guards(self._order.job_id)
        for one in found:
            self._watch(one)
        for one in self._launchers or found:
            one.send(self._order.number)
            one.send(signal.SIGCONT)
        self._wake_guards()
        self._advance()

    def close(self) -> None:
        """Stop without an outcome, and without changes."""
        self._timer.cancel()
        for one in self._running.values():
            self._loop.remove(one.fd)
        for one in (*self._running.values(), *self._launchers):
            one.close()
        self._running, self._launchers = {}, []

    def _watch(self, one: JobProcess) -> None:
        self._running[one.pid] = one
        self._loop.add_reader(one.fd, partial(self._on_exit, one))

    def _sweep(self) -> bool:
        """Signal new processes; return whether there were any."""
        new = False
        for one in find(self._order.job_id):
            if one.pid in self._running:
                one.close()
                continue
            for number in self._numbers:
                one.send(number)
            self._watch(one)
            new = True
        return new

    def _on_exit(self, one: JobProcess) -> None:
        self._loop.remove(one.fd)
        one.close()
        del self._running[one.pid]
        self._gone.append(one.text)
        self._advance()

    def _advance(self) -> None:
        """Finish if no process is left; send the current signal to newly forked ones."""
        if not self._running and not any(self._sweep() for _ in range(SWEEPS)):
            self._finish()

    def _kill_launchers(self) -> None:
        """End the grace: a guard whose node launcher is killed kills all of its processes."""
        for one in self._launchers:
            one.send(signal.SIGKILL)
        self._wake_guards()
        wait = LAUNCHER_TIME if self._launchers else 0.0
        self._timer = self._loop.call_later(wait, lambda: self._kill(LOOKS))

    def _wake_guards(self) -> None:
        for launcher in self._launchers:
            guard = processes.parent(launcher.pid)
            for one in _held([guard] if guard > 1 else [], processes.is_own):
                one.send(signal.SIGCONT)
                one.close()

    def _kill(self, looks: int) -> None:
        """Kill all processes again, this number of times, as they may fork in the meantime."""
        self._numbers = (signal.SIGSTOP, signal.SIGKILL)
        for _ in range(SWEEPS):
            self._sweep()
        for one in self._running.values():
            one.send(signal.SIGKILL)
        if looks:
            self._timer = self._loop.call_later(LOOK, lambda: self._kill(looks - 1))
        else:
            self._finish()

    def _finish(self) -> None:
        left = tuple(processes.stuck(pid) for pid in self._running)
        self.close()
        self._ended(EndedJob(tuple(self._gone), left))
