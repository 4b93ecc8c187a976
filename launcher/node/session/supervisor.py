"""The supervisor of one command: a fork of the node launcher that cleans up after the command.

It adopts the processes that the command leaves behind, which otherwise would become children of
the node launcher, and stops them at its end. It passes signals to the command's process group. As
the parent, it knows that the group's id has not been reused.
"""

from __future__ import annotations

import gc
import signal
import socket
from contextlib import suppress

from ...common import system
from ...common.errors import INTERNAL
from ...common.loop import Loop
from ..guard import received
from ..machine import descendants, processes
from ..workers.spawn import SpawnFailed, spawn

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

    from ..workers.spawn import WorkerSpec

STARTED, FAILED, ENDED = b"started ", b"failed ", b"ended "
"""Messages of a supervisor. The first carries three descriptors: our ends of the command's streams;
the second the reason; the third the wait status."""


def supervise(spec: WorkerSpec) -> tuple[int, socket.socket]:
    """Start a command below a supervisor; return the supervisor's pid, and a socket to it.

    The supervisor sends messages over the socket, and receives signal numbers, one byte each.
    The number of SIGKILL ends all processes of the command.

    Raises:
        OSError: another process cannot be created, or no descriptor is left.
    """
    ours, theirs = system.socketpair(socket.SOCK_SEQPACKET)
    parent = system.getpid()
    try:
        with theirs:
            pid = system.fork(lambda: _become(spec, parent, theirs))
    except OSError:
        ours.close()
        raise
    ours.setblocking(False)
    return pid, ours


def _become(spec: WorkerSpec, parent: int, line: socket.socket) -> NoReturn:
    """Turn the fork into a supervisor; never return."""
    gc.disable()  # collected objects of the node launcher would close new descriptors
    try:
        processes.die_with_parent(signal.SIGKILL)
        system.set_wakeup_fd(-1)
        if system.getppid() == parent:
            _close_all_but(line.fileno())
            processes.adopt_orphans()
            _Supervisor(line).run(spec)
    except ConnectionError:
        pass  # the node launcher has ended: its guard ends the command
    except Exception:
        import traceback

        traceback.print_exc()
    finally:
        system.exit_now(INTERNAL)


def _close_all_but(kept: int) -> None:
    """Close all descriptors of the node launcher except 0 to 2 and `kept`."""
    for fd in map(int, system.listdir("/proc/self/fd")):
        if fd > 2 and fd != kept:
            with suppress(OSError):  # the descriptor of /proc/self/fd itself
                system.close(fd)


class _Supervisor:
    def __init__(self, line: socket.socket) -> None:
        self._line = line
        self._loop = Loop()
        self._loop.on_signals({signal.SIGCHLD}, lambda _number: self._reap())
        self._pid = 0
        self._status: int | None = None
        self._stopping = False

    def run(self, spec: WorkerSpec) -> None:
        """Start the command, wait for its end, stop its leftovers, and exit."""
        try:
            command = spawn(spec)
        except (SpawnFailed, OSError) as error:
            self._line.send(FAILED + str(error).encode("utf-8", "replace"))
            system.exit_now(0)
        self._pid, streams = command.pid, [command.stdin, command.stdout, command.stderr]
        system.send_fds(self._line, [STARTED], streams)
        for fd in streams:
            system.close(fd)
        self._loop.add_reader(self._line.fileno(), self._receive)
        self._reap()
        while not self._over():
            self._loop.run()
        descendants.sweep()
        self._line.send(ENDED + b"%d" % (self._status or 0))
        system.exit_now(0)

    def _over(self) -> bool:
        """Return whether the command has ended; a stop gives its leftovers time to end."""
        return self._status is not None and not (self._stopping and processes.children())

    def _receive(self) -> None:
        """Pass on signals; the end of the line means the end of the node launcher."""
        numbers = received(self._line)
        if not numbers:
            system.exit_now(INTERNAL)
        for number in numbers:
            self._stopping = number != signal.SIGKILL
            if number == signal.SIGKILL:
                descendants.kill_all()
            elif self._status is None:
                processes.send(self._pid, number, group=True)
                processes.send(self._pid, signal.SIGCONT, group=True)
        self._loop.stop()

    def _reap(self) -> None:
        self._status = processes.reap().get(self._pid, self._status)
        self._loop.stop()
