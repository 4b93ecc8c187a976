"""A simulated machine."""

from __future__ import annotations

import errno
import os
import signal
import socket
from typing import TYPE_CHECKING

from .files import Files
from .process import Process, error
from .sockets import NamedSocket, TcpSocket

if TYPE_CHECKING:
    from collections.abc import Callable

    from .kernel import Kernel

PIDS = 4096
"""How many pids there are: few, so that they are soon used again."""

FIRST_PID = 300
"""Where pids begin again (RESERVED_PIDS of the kernel)."""

EPOCH = 1.8e9
"""About the time of day when worlds begin."""


class Host:
    """One machine.

    Attributes:
        address: in the network of all hosts.
        processes: its processes by pid, zombies included.
        boot: when it was started, in seconds of the world.
        wall: what its time of day is ahead of the world's.
        ports: the sockets that are bound to a port.
        names: the unix sockets that are bound to an abstract name, if it `has_names`.
        most_processes: how many there may be at once.
    """

    def __init__(self, kernel: Kernel, name: str, pids: int = PIDS, cpus: int = 8) -> None:
        chance = kernel.random
        self.kernel = kernel
        self.name = name
        self.address = f"10.0.0.{len(kernel.hosts) + 1}"
        self.pids = pids
        self.cpus = cpus
        self.on = True
        self.uptime = chance.uniform(100.0, 1e6)
        self.wall = chance.uniform(-1.0, 1.0)
        self.processes: dict[int, Process] = {}
        self.ports: dict[int, list[TcpSocket]] = {}
        self._given: set[int] = set()
        self.names: dict[str, NamedSocket] = {}
        self.has_names = False
        self.most_processes = pids - FIRST_PID
        self.files = Files(kernel)
        self.load = 0.0
        self._start()

    def _start(self) -> None:
        """Begin with a boot id and with process 1, which reaps."""
        self.boot_id = f"{self.kernel.random.getrandbits(128):032x}"
        self.last_pid = self.kernel.random.randrange(FIRST_PID, self.pids)
        self.init = Process(self, 1, None)
        self.init.uid, self.init.role, self.init.name = 0, "stranger", "init"
        self.init.subreaper = True
        self.processes[1] = self.init

    def monotonic(self) -> float:
        """Return what the monotonic clock shows."""
        return self.uptime + self.kernel.now

    def time(self) -> float:
        """Return the time of day."""
        return EPOCH + self.wall + self.kernel.now

    def jump(self, seconds: float) -> None:
        """Change the time of day."""
        self.wall += seconds

    def ticks(self) -> int:
        """Return the clock ticks since boot."""
        return int(self.monotonic() * 100)

    def new_pid(self) -> int:
        """Return the next pid that is free.

        Raises:
            OSError: there is none.
        """
        if len(self.processes) >= self.most_processes or not self.on:
            raise error(errno.EAGAIN)
        taken = self.processes
        groups = {one.pgid for one in taken.values()} | {one.sid for one in taken.values()}
        for _ in range(self.pids):
            self.last_pid = self.last_pid + 1 if self.last_pid + 1 < self.pids else FIRST_PID
            if self.last_pid not in taken and self.last_pid not in groups:
                return self.last_pid
        raise error(errno.EAGAIN)

    def add(self, parent: Process | None) -> Process:
        """Add a process below a parent, or below init."""
        parent = parent or self.init
        process = Process(self, self.new_pid(), parent)
        self.processes[process.pid] = process
        parent.children[process.pid] = process
        return process

    def add_stranger(self, uid: int, name: str) -> Process:
        """Add a process of another job or user, which does nothing."""
        process = self.add(None)
        process.uid, process.role, process.name = uid, "stranger", name
        process.argv = [os.fsencode(name)]
        self.kernel.began(process)
        return process

    def free_port(self) -> int:
        """Return a port that no socket has had: by it worlds know a round of an elastic job.

        Raises:
            OSError: there is none.
        """
        for _ in range(1000):
            port = self.kernel.random.randrange(32768, 61000)
            if port not in self.ports and port not in self._given:
                self._given.add(port)
                return port
        raise error(errno.EADDRINUSE)

    def find(self, pid: int) -> Process:
        """Return a process.

        Raises:
            OSError: there is none.
        """
        process = self.processes.get(pid)
        if process is None:
            raise error(errno.ESRCH)
        return process

    def signal(self, pid: int, number: int) -> None:
        """Send a signal, as the world."""
        if pid in self.processes:
            self.kernel.signals.send(self.processes[pid], number)

    def kill(self, pid: int) -> None:
        """Send SIGKILL, as the world."""
        self.signal(pid, signal.SIGKILL)

    def stick(self, process: Process) -> Callable[[], None]:
        """Let a process wait in the kernel (state D) until what is returned is called."""
        process.stuck = True

        def go_on() -> None:
            process.stuck = False
            if process.alive and process.killed_by is not None:
                self.kernel.end(process, process.killed_by)
            elif process.alive:
                self.kernel.signals.deliver_pending(process)
                for task in process.tasks:
                    task.unpark()

        return go_on

    def power_on(self) -> None:
        """Start again after `power_off`; its files are still there."""
        self.on = True
        self.uptime = 10.0 - self.kernel.now
        self._start()

    def hold_port(self, process: Process, port: int = 0, *, listening: bool = True) -> int:
        """Let a process hold a port, any free one for 0; return it.

        Raises:
            OSError: it is taken.
        """
        inode = self.kernel.descriptors.inode()
        one = TcpSocket(inode, self, socket.AF_INET, process.uid)
        one.reuse = True
        one.bind("", port)
        if listening:
            one.listen()
        process.install(one)
        return one.port

    def power_off(self) -> None:
        """Lose all processes; nobody is told, and links go silent."""
        self.on = False
        self.kernel.network.power_off(self)
        for process in [*self.processes.values()]:
            process.reaped = True
            process.status = signal.SIGKILL if process.status is None else process.status
            for task in process.tasks:
                self.kernel.bury(task)
            process.close_all()
        self.processes.clear()
        self.ports.clear()
