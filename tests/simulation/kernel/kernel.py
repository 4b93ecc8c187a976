"""The kernel: what happens to processes, and what is asked of it by the world."""

from __future__ import annotations

import errno
import gc
import os
import signal
import traceback
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from .descriptors import Descriptors
from .host import PIDS, Host
from .network import LinkEnd, Network
from .process import Process, error
from .scheduler import Gone, Scheduler, Task
from .signals import Signals

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from types import ModuleType
    from typing import TypeAlias

    from .descriptors import Description

    Program: TypeAlias = Callable[[], object]
    Programs: TypeAlias = Callable[[Process, Sequence[bytes], Mapping[bytes, bytes]], Program]


class Kernel(Scheduler):
    """The operating system of all hosts.

    Attributes:
        hosts: by their names.
        record: is told what happens: kind, host and fields of an event of a history.
        programs: returns what runs when a process executes a file; raises OSError as execve(2).
        roles: is called for each new process, with what it will run, before it is recorded; it may
            set the role and name.
        trace: is told the process, name and arguments of each system call, if it is there when
            `calls` is called.
        leaving: is told the process, the place and the bytes that a process writes there: the kind
            of a descriptor, or the path of a file; or "exec", and words and environment.
        crashes: processes that ended by an exception of their code, and the exception.
    """

    def __init__(self, seed: int, pids: int = PIDS) -> None:
        super().__init__(seed)
        self.pids = pids
        self.hosts: dict[str, Host] = {}
        self.descriptors = Descriptors(self)
        self.signals = Signals(self)
        self.network = Network(self)
        self.record: Callable[[str, str, dict[str, Any]], object] | None = None
        self.programs: Programs = no_programs
        self.roles: Callable[[Process, Program], object] | None = None
        self.trace: Callable[[Process | None, str, tuple[object, ...]], object] | None = None
        self.leaving: Callable[[Process, str, bytes], object] | None = None
        self.crashes: list[tuple[Process, BaseException]] = []
        self._objects = 0

    # For the world.

    def host(self, name: str) -> Host:
        """Add a host."""
        self.hosts[name] = Host(self, name, self.pids)
        return self.hosts[name]

    def link(self, one: Host, other: Host) -> tuple[LinkEnd, LinkEnd]:
        """Return the ends of a new stream between two hosts."""
        return self.network.link(one, other)

    def calls(self) -> dict[str, Callable[..., Any]]:
        """Return all system calls, for `system.use`."""
        from .calls import all_calls

        return all_calls(self)

    @property
    def current(self) -> Process | None:
        """The process whose code runs, None while the world's does."""
        return self.task.process if self.task is not None else None

    @property
    def process(self) -> Process:
        """The process whose code runs.

        Raises:
            Gone: it has ended.
        """
        return self.running().process

    def spawn(
        self,
        host: Host,
        function: Program,
        argv: Sequence[bytes] = (b"program",),
        env: Mapping[bytes, bytes] | None = None,
        fds: Mapping[int, Description] | None = None,
        uid: int = 1000,
        parent: Process | None = None,
        *,
        role: str = "",
        name: str = "",
    ) -> Process:
        """Start a process in a session of its own; without a parent, below init.

        Raises:
            OSError: there is no room for it.
        """
        process = host.add(parent)
        process.become(argv, env or {})
        process.uid, process.role, process.name = uid, role, name or process.comm
        for fd, description in (fds or {}).items():
            process.install(description, cloexec=False, fd=fd)
        self.start(process, function)
        return process

    def leaks(self) -> dict[str, list[str]]:
        """Return what is left: living processes, ports, and files that processes have made."""
        hosts = [one for one in self.hosts.values() if one.on]
        return {
            "processes": [
                f"{host.name}: {one.role} {one.name} (pid {one.pid}, {one.state})"
                for host in hosts
                for one in host.processes.values()
                if one.role != "stranger"
            ],
            "ports": [f"{host.name}: {port}" for host in hosts for port in sorted(host.ports)],
            "files": [f"{host.name}: {path}" for host in hosts for path in host.files.made()],
        }

    @contextmanager
    def installed(self, system: ModuleType) -> Iterator[None]:
        """Put the calls in place of those of `launcher/common/system.py`, for a while.

        At the end no code of a process is left, which could call the real system later.
        """
        before = system.use(self.calls())
        try:
            yield
        finally:
            self.close()
            system.use(before)

    def close(self) -> None:
        """End the code of all processes; some have disabled the garbage collection."""
        for host in self.hosts.values():
            for process in host.processes.values():
                for task in process.tasks:
                    self.bury(task)
        self.unwind()
        gc.enable()

    # For the calls.

    def tell(self, kind: str, host: str, fields: dict[str, Any]) -> None:
        """Record an event."""
        if self.record is not None:
            self.record(kind, host, fields)

    def new_object(self) -> int:
        """Return the number of a new Python object that is open in this process."""
        self._objects += 1
        self.process.objects.add(self._objects)
        return self._objects

    def system_read(self, fd: int, size: int) -> bytes:
        """Read from a descriptor."""
        description = self.enter().get(fd)
        node = getattr(description, "node", None)
        if node is not None:
            self.process.host.files.touch(node.system)
        return self.descriptors.read(description, size)

    def system_write(self, fd: int, data: bytes) -> int:
        """Write to a descriptor."""
        description = self.enter().get(fd)
        node = getattr(description, "node", None)
        if node is not None:
            self.process.host.files.touch(node.system)
        return self.descriptors.write(description, bytes(data))

    def system_open(self, path: str | bytes, flags: int, mode: int = 0o777) -> int:
        """Open a file."""
        from .proc import is_proc, open_proc

        process, text = self.enter(), os.fsdecode(path)
        try:
            if is_proc(process, text):
                description = open_proc(self, process, text, flags)
            else:
                description = process.host.files.open(process, text, flags, mode)
        except OSError as problem:
            raise error(problem.errno or 0, path) from None
        return process.install(description, bool(flags & os.O_CLOEXEC))

    def began(self, process: Process, function: Program | None = None) -> None:
        """Record that a process began."""
        if self.roles is not None and function is not None:
            self.roles(process, function)
        numbers = {"pid": process.pid, "parent": process.ppid}
        words = {"role": process.role, "name": process.name}
        self.tell("spawned", process.host.name, {**numbers, **words})

    def start(self, process: Process, function: Program) -> None:
        """Let a new process begin with a function."""
        self.began(process, function)
        self.run_image(process, function)

    def run_image(self, process: Process, function: Program) -> None:
        """Let a process run a function as its only thread."""
        for task in process.tasks:
            self.bury(task)
        task = Task(self, process, lambda: self._body(process, function), process.pid)
        process.tasks = [task]
        task.wake()

    def _body(self, process: Process, function: Program) -> None:
        """Run the code of a process, and end it."""
        task = self.running()
        try:
            status = _status_of(function())
        except Gone:
            return
        except SystemExit as problem:
            status = _status_of(problem.code)
        except BaseException as problem:
            if task.dead:
                return
            self.crash(process, problem)
            status = 1 << 8
        if not task.dead:
            self.end(process, status)

    def crash(self, process: Process, problem: BaseException) -> None:
        """Note an exception of a process's code, and write it to its standard error."""
        self.crashes.append((process, problem))
        slot = process.slots.get(2)
        if slot is not None:
            lines = traceback.format_exception(type(problem), problem, problem.__traceback__)
            try:
                slot.description.try_write("".join(lines).encode("utf-8", "replace"))
            except OSError:
                return

    def kill(self, process: Process, number: int) -> None:
        """End a process by a signal, or once an access to a file system is over."""
        if process.stuck:
            process.killed_by = number if process.killed_by is None else process.killed_by
        elif any(task.uninterruptible for task in process.tasks):
            process.killed_by = number if process.killed_by is None else process.killed_by
            for task in process.tasks:
                if not task.uninterruptible:
                    self.bury(task)
        else:
            self.end(process, number)

    def after_sleep(self, task: Task) -> None:
        """Do what has been waiting for the end of an access to a file system."""
        process = task.process
        if process.killed_by is not None:
            self.end(process, process.killed_by)
        else:
            self.signals.deliver_pending(process)
        self.settle()

    def settle(self) -> None:
        """Let signals to the running process have their effect."""
        task = self.running()
        if task.process.stopped:
            self.pause()

    def end(self, process: Process, status: int) -> None:
        """End a process: first its descriptors are closed; a little later it is a zombie."""
        if process.exiting or not process.alive:
            return
        process.exiting = True
        for task in process.tasks:
            self.bury(task)
        process.tasks = []
        process.close_all()
        if self.random.random() < 0.5:
            self.at(self.cost(), lambda: self._ended(process, status))
        else:
            self._ended(process, status)

    def _ended(self, process: Process, status: int) -> None:
        if process.reaped:  # its host has lost power
            return
        self._leave_children(process)
        process.status = status
        for one in process.watchers:
            one.changed()
        self.tell("ended", process.host.name, {"pid": process.pid, "status": status})
        self._tell_parent(process)

    def _leave_children(self, process: Process) -> None:
        """Give the children to the nearest subreaper above."""
        heir = process.parent
        while heir is not None and not (heir.subreaper and heir.alive and not heir.exiting):
            heir = heir.parent
        heir = heir or process.host.init
        children, process.children = process.children, {}
        for child in children.values():
            child.parent = heir
            heir.children[child.pid] = child
            if child.death_signal and child.alive:
                self.signals.send(child, child.death_signal, process.pid)
            if not child.alive:
                self._tell_parent(child)

    def _tell_parent(self, process: Process) -> None:
        parent = process.parent
        if parent is None:
            return
        ignored = self.signals.handler(parent, signal.SIGCHLD) == signal.SIG_IGN
        if parent.pid == 1 or ignored:
            self.reap(process)
        if parent.pid != 1:
            self.signals.send(parent, signal.SIGCHLD, process.pid)
            parent.waits.wake()

    def reap(self, process: Process) -> None:
        """Forget a process that has ended."""
        process.reaped = True
        process.host.processes.pop(process.pid, None)
        if process.parent is not None:
            process.parent.children.pop(process.pid, None)


def _status_of(code: object) -> int:
    """Return the wait status for what a program returned, or gave sys.exit."""
    if code is None:
        return 0
    return (code & 0xFF) << 8 if isinstance(code, int) else 1 << 8


def no_programs(process: Process, argv: Sequence[bytes], env: Mapping[bytes, bytes]) -> Program:
    """Find no program."""
    del process, env
    raise error(errno.ENOENT, argv[0])
