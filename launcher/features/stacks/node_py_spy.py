"""Stacks of Python programs, read from outside by py-spy.

py-spy reads the memory of a process (process_vm_readv(2)). By default it does not stop the process
for that: one that is stopped in the middle of something must not go on because of a question, and
some system calls of a process fail when it is stopped and goes on (signal(7)).
"""

from __future__ import annotations

import os
import select
import signal
from contextlib import suppress

from ...common import executable, system
from ...common.records import NamedTuple
from ...common.text import read_json
from ...node.machine import processes
from ...node.workers.spawn import SpawnFailed, WorkerSpec, spawn
from .hook import FOLDER
from .messages import ThreadStack

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

    from ...node.workers.spawn import Process
    from .node_family import Member

NAME = "py-spy"

OWN = f"({FOLDER}/sitecustomize.py:"
"""Text in a frame of the worker's hook."""

AT_ONCE = max(16, os.cpu_count() or 1)
"""Maximum number of running readers: where workers use all CPUs, each reader needs a share."""

LARGEST = 16 << 20
"""Maximum bytes of output of one reader."""

NO_PYTHON = "it is not running Python"

SHOWN = 200
"""Characters of its output that are quoted."""

PAUSABLE = frozenset("RS")
"""States in which a process may be stopped for a moment, which reading native frames needs."""


class Reading(NamedTuple):
    """The stacks read from one process.

    Attributes:
        source: the reader; "" without stacks.
        problem: why there are no stacks; else "".
    """

    threads: tuple[ThreadStack, ...] = ()
    source: str = ""
    problem: str = ""


def find(worker: Process) -> bytes:
    """Return py-spy on our own PATH, or next to the Python of the worker or our own; b"" for none.

    Other folders may hold other users' py-spy: a worker's PATH, or the folders of its programs.
    """
    folders = executable.own_folders(os.fsdecode(worker.spec.python))
    return os.fsencode(executable.find(NAME, folders))


def read(
    members: Iterable[tuple[Member, bytes]], *, native: bool, until: float
) -> dict[int, Reading]:
    """Return the stacks of these processes by pid, given the program to read each with.

    Args:
        members: the most important ones first.
        native: whether to read frames of C and C++ code as well.
        until: the time to stop, on the monotonic clock.
    """
    waiting = list(members)
    running: list[_Running] = []
    found: dict[int, Reading] = {}
    while (waiting or running) and system.monotonic() < until:
        while waiting and len(running) < AT_ONCE:
            member, program = waiting.pop(0)
            try:
                running.append(_Running(member, program, native=native))
            except (SpawnFailed, OSError) as error:
                found[member.pid] = Reading(problem=f"py-spy was not started: {error}")
        for one in _advance(running, until) if running else ():
            running.remove(one)
            found[one.member.pid] = one.reading()
    for one in running:
        one.kill()
        found[one.member.pid] = Reading(problem="py-spy did not answer in time")
    return {**{one.pid: Reading(problem="no time was left for it") for one, _ in waiting}, **found}


class _Running:
    """A running reader."""

    def __init__(self, member: Member, program: bytes, *, native: bool) -> None:
        self.member = member
        argv = [program, b"dump", b"--json", b"--pid", b"%d" % member.pid]
        self._pauses = native and member.state in PAUSABLE
        argv.append(b"--native" if self._pauses else b"--nonblocking")
        spec = WorkerSpec(rank=0, argv=argv, env=dict(os.environb), workdir=b"/")
        self._process = spawn(spec)
        system.close(self._process.stdin)
        self._data = {self._process.stdout: b"", self._process.stderr: b""}
        self.open = [*self._data]

    def read(self, fd: int) -> None:
        """Read its output."""
        block = system.read(fd, 1 << 20)
        self._data[fd] += block
        if len(self._data[fd]) > LARGEST:
            self.kill()
        elif not block:
            self.open.remove(fd)
            system.close(fd)

    def reading(self) -> Reading:
        """Return the result, once py-spy has ended."""
        with suppress(ChildProcessError):  # it was killed
            system.waitpid(self._process.pid, 0)
        try:
            stacks = read_json(self._data[self._process.stdout])
            found = [thread(self.member.pid, one) for one in stacks]
        except (ValueError, KeyError, TypeError):
            said = self._data[self._process.stderr]
            return Reading(problem=_reason(said, python=self.member.python))
        return Reading(tuple(one for one in found if not is_own(one)), "py-spy")

    def kill(self) -> None:
        """Kill py-spy, and resume a process that it has stopped or was about to stop."""
        processes.send(self._process.pid, signal.SIGKILL)
        while self.open:
            system.close(self.open.pop())
        if self._pauses:
            system.waitpid(self._process.pid, 0)
            _continue(self.member)


def _continue(member: Member) -> None:
    """Resume a process; a stop that it has not noticed yet is cancelled (signal(7))."""
    with suppress(OSError):  # it has ended
        fd = system.pidfd_open(member.pid)
        try:
            if processes.parent(member.pid) == member.parent:
                system.pidfd_send_signal(fd, signal.SIGCONT)
        finally:
            system.close(fd)


def _advance(running: Sequence[_Running], until: float) -> list[_Running]:
    """Read new output; return the readers that have ended."""
    poll = system.poll()
    owners = {fd: one for one in running for fd in one.open}
    for fd in owners:
        poll.register(fd, select.POLLIN)
    for fd, _ in poll.poll(max(0.0, until - system.monotonic()) * 1000):
        if fd in owners[fd].open:
            owners[fd].read(fd)
    return [one for one in running if not one.open]


def is_own(one: ThreadStack) -> bool:
    """Return whether a thread belongs to the worker's hook."""
    return any(OWN in frame for frame in one.frames)


def thread(pid: int, found: Mapping[str, Any]) -> ThreadStack:
    """Return a thread from py-spy's output.

    Raises:
        KeyError, TypeError: the output has no thread.
    """
    return ThreadStack(
        pid=pid,
        name=str(found["thread_name"] or ""),
        main=found["os_thread_id"] == pid,
        active=bool(found["active"] or found["owns_gil"]),
        frames=tuple(map(_frame, found["frames"])),
    )


def _frame(found: Mapping[str, Any]) -> str:
    name, line = found["name"], found["line"]
    if found["module"]:
        return f"{name} ({os.path.basename(found['module'])})"
    return f"{name} ({found['filename']}:{line})" if line else f"{name} ({found['filename']})"


def _reason(printed: bytes, *, python: bool) -> str:
    """Return why py-spy has failed, from the first line of its output.

    Its message about a program not named `python` means that the program contains no Python.
    """
    first = printed.decode("utf-8", "replace").strip().partition("\n")[0][:SHOWN]
    if "ermission" in first or "EPERM" in first:
        return "py-spy is not allowed to read it (ptrace)"
    if first and not python:
        return NO_PYTHON
    return f"py-spy: {first.removeprefix('Error: ') or 'it was killed'}"
