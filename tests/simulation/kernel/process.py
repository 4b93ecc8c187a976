"""A simulated process: what Linux knows of it."""

from __future__ import annotations

import errno
import os
import posixpath
import signal
from typing import TYPE_CHECKING

from .scheduler import Queue

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from .descriptors import Description
    from .host import Host
    from .scheduler import Task

MOST_DESCRIPTORS = 4096

_COPIED = (
    "uid", "sid", "pgid", "cwd", "umask", "wakeup", "mask", "role", "name", "comm", "cpus",
    "policy", "priority", "most_descriptors",
)  # fmt: skip


def error(number: int, path: str | bytes | None = None) -> OSError:
    """Return the exception of an error number."""
    if path is None:
        return OSError(number, os.strerror(number))
    return OSError(number, os.strerror(number), path)


class Slot:
    """A descriptor: what it refers to, and whether an exec closes it."""

    __slots__ = ("cloexec", "description")

    def __init__(self, description: Description, cloexec: bool) -> None:
        self.description = description
        self.cloexec = cloexec


class Process:
    """One process.

    Attributes:
        role: as in a history.
        name: as in a history.
        comm: the name in /proc/PID/comm.
        cores: whether it leaves core dumps.
        exiting: whether it is about to end: its descriptors are closed.
        status: its wait status once it has ended.
        reaped: whether its parent has waited for it, or will not.
        objects: numbers of the Python objects (sockets, files) that are open in this process; an
            object that was there before a fork may be open in one process and closed in the other.
        cpu: seconds of CPU time.
        trap: what the world does in its next system call; None for nothing.
        moved: bytes that were read and written.
    """

    uid = 1000
    cwd = "/"
    umask = 0o022
    role = name = comm = ""
    most_descriptors = MOST_DESCRIPTORS
    mask: frozenset[int] = frozenset()
    wakeup = -1
    death_signal = stops = moved = priority = 0
    policy = os.SCHED_OTHER
    stuck = subreaper = stopped = exiting = reaped = cores = False
    killed_by: int | None = None
    trap: Callable[[], None] | None = None
    status: int | None = None
    cpu = 0.0

    def __init__(self, host: Host, pid: int, parent: Process | None) -> None:
        self.host = host
        self.pid = pid
        self.parent = parent
        self.children: dict[int, Process] = {}
        self.sid = self.pgid = pid
        self.argv: list[bytes] = []
        self.environ: dict[bytes, bytes] = {}
        self.slots: dict[int, Slot] = {}
        self.objects: set[int] = set()
        self.handlers: dict[int, object] = {signal.SIGPIPE: signal.SIG_IGN}
        self.pending: dict[int, tuple[int, int, int]] = {}
        self.tasks: list[Task] = []
        self.cpus = frozenset(range(host.cpus))
        self.start_ticks = host.ticks()
        self.signals = Queue()
        self.waits = Queue()
        self.watchers: list[Description] = []

    def __repr__(self) -> str:
        return f"<{self.host.name} {self.pid} {self.role} {self.name}>"

    @property
    def descriptors(self) -> int:
        """How many descriptors it has open."""
        return len(self.slots)

    @property
    def ppid(self) -> int:
        """The pid of the parent, 0 for none."""
        return self.parent.pid if self.parent is not None else 0

    @property
    def alive(self) -> bool:
        """Whether it has not ended."""
        return self.status is None

    @property
    def state(self) -> str:
        """The kernel's letter for its state."""
        if not self.alive:
            return "X" if self.reaped else "Z"
        if self.stuck or any(task.uninterruptible for task in self.tasks):
            return "D"
        if self.stopped:
            return "T"
        running = self.host.kernel.task
        busy = any(task.scheduled or task is running for task in self.tasks)
        return "R" if busy or self.exiting else "S"

    def get(self, fd: int) -> Description:
        """Return what a descriptor refers to.

        Raises:
            OSError: it is not open.
        """
        slot = self.slots.get(fd)
        if slot is None:
            raise error(errno.EBADF)
        return slot.description

    def install(self, description: Description, cloexec: bool = True, fd: int | None = None) -> int:
        """Add a descriptor, the lowest one that is free or this one; return it.

        Raises:
            OSError: there are too many.
        """
        if fd is None:
            fd = next(n for n in range(len(self.slots) + 1) if n not in self.slots)
            if fd >= self.most_descriptors:
                raise error(errno.EMFILE)
        elif fd in self.slots:
            self.remove(fd)
        description.refs += 1
        self.slots[fd] = Slot(description, cloexec)
        return fd

    def remove(self, fd: int) -> None:
        """Close a descriptor.

        Raises:
            OSError: it is not open.
        """
        slot = self.slots.pop(fd, None)
        if slot is None:
            raise error(errno.EBADF)
        slot.description.drop()

    def copy_from(self, parent: Process) -> None:
        """Take over what a fork copies."""
        for name in _COPIED:
            setattr(self, name, getattr(parent, name))
        self.argv = [*parent.argv]
        self.environ = {**parent.environ}
        self.handlers = {**parent.handlers}
        self.objects = {*parent.objects}
        for fd, slot in parent.slots.items():
            self.install(slot.description, slot.cloexec, fd)

    def become(self, argv: Sequence[bytes], env: Mapping[bytes, bytes]) -> None:
        """Change what an exec changes."""
        self.argv, self.environ = [*argv], {**env}
        self.comm = os.fsdecode(posixpath.basename(argv[0]))[:15]
        self.objects.clear()
        self.wakeup = -1
        self.handlers = {
            number: one for number, one in self.handlers.items() if one == signal.SIG_IGN
        }
        for fd in [fd for fd, slot in self.slots.items() if slot.cloexec]:
            self.remove(fd)

    def close_all(self) -> None:
        """Close all descriptors."""
        for fd in [*self.slots]:
            self.remove(fd)
