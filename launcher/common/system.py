"""The operating system for the runner and the node launcher: nothing but system calls.

The modules that run in simulated worlds (`tests/simulation`) make all system calls here: on
descriptors, sockets, processes, signals, clocks, files and threads. Each name is the function with
that name in Python's library, or the one in its comment; this module decides nothing. Constants and
functions without effects (`os.path.join`, `signal.SIGTERM`) do not belong here. `use` replaces the
system.
"""

from __future__ import annotations

import _socket
import builtins
import functools
import os
import select
import signal
import sys
import time as clocks
from contextlib import suppress

TYPE_CHECKING = False
if TYPE_CHECKING:
    import ctypes
    import socket as sockets
    import threading
    from collections.abc import Callable, Mapping, Sequence
    from typing import NoReturn

# Descriptors.
read = os.read
pread = os.pread
write = os.write
close = os.close
pipe2 = os.pipe2
dup = os.dup
dup2 = os.dup2
fstat = os.fstat
isatty = os.isatty
lseek = os.lseek
truncate = os.truncate
set_blocking = os.set_blocking
set_inheritable = os.set_inheritable
memfd_create = os.memfd_create
get_terminal_size = os.get_terminal_size
sameopenfile = os.path.sameopenfile
open_fd = os.open
open_file = builtins.open
epoll = select.epoll
poll = select.poll

# A socket without the part of `socket` that is written in Python, which takes longer to import.
plain_socket = _socket.socket

# Processes.
execvpe = os.execvpe
exit_now = os._exit
getpid = os.getpid
getppid = os.getppid
getuid = os.getuid
geteuid = os.geteuid
getgid = os.getgid
setsid = os.setsid
chdir = os.chdir
getcwd = os.getcwd
kill = os.kill
killpg = os.killpg
waitpid = os.waitpid
pidfd_open = os.pidfd_open
pidfd_send_signal = signal.pidfd_send_signal
sched_getaffinity = os.sched_getaffinity
sched_setaffinity = os.sched_setaffinity
sched_getscheduler = os.sched_getscheduler
sched_setscheduler = os.sched_setscheduler
sched_getparam = os.sched_getparam
uname = os.uname
getloadavg = os.getloadavg

# Signals.
getsignal = signal.getsignal
set_handler = signal.signal
set_wakeup_fd = signal.set_wakeup_fd
pthread_sigmask = signal.pthread_sigmask
sigtimedwait = signal.sigtimedwait

# Clocks and chance.
monotonic = clocks.monotonic
time = clocks.time
sleep = clocks.sleep
clock_gettime = clocks.clock_gettime
thread_time = clocks.thread_time
process_time = clocks.process_time
urandom = os.urandom

# Files.
listdir = os.listdir
stat = os.stat
lstat = os.lstat
statvfs = os.statvfs
access = os.access
mkdir = os.mkdir
makedirs = os.makedirs
unlink = os.unlink
readlink = os.readlink
scandir = os.scandir
isdir = os.path.isdir
islink = os.path.islink
exists = os.path.exists

# Modules that are slow to import are imported at the first call.


def socket(
    family: int = -1, kind: int = -1, proto: int = -1, *, fileno: int | None = None
) -> sockets.socket:
    """Return a new socket, or one for an existing descriptor (socket.socket)."""
    from socket import socket as new

    return new(family, kind, proto, fileno)


def socketpair(kind: int) -> tuple[sockets.socket, sockets.socket]:
    """Return two connected unix sockets of a kind (socket.socketpair)."""
    from socket import socketpair as new

    return new(type=kind)


def addresses_of(host: str) -> set[str]:
    """Return the addresses of a host, according to the resolver (socket.getaddrinfo).

    Raises:
        OSError: the host has no address.
    """
    from socket import getaddrinfo

    return {str(info[4][0]) for info in getaddrinfo(host, None)}


def getrlimit(number: int) -> tuple[int, int]:
    """Return the soft and the hard limit of a resource (resource.getrlimit)."""
    from resource import getrlimit as found

    return found(number)


def if_nameindex() -> list[tuple[int, str]]:
    """Return the network interfaces, with their indexes (socket.if_nameindex)."""
    from socket import if_nameindex as found

    return found()


def resolve(host: str, port: int) -> list[tuple[int, tuple[object, ...]]]:
    """Return the families and the socket addresses of a host (socket.getaddrinfo), at least one.

    Raises:
        OSError: the name does not resolve.
        UnicodeError: the text cannot be a name.
    """
    from socket import SOCK_STREAM, getaddrinfo

    return [(one[0], one[4]) for one in getaddrinfo(host, port, type=SOCK_STREAM)]


def send_fds(line: sockets.socket, buffers: Sequence[bytes], fds: Sequence[int]) -> int:
    """Send bytes and descriptors (socket.send_fds)."""
    from socket import send_fds as send

    return send(line, buffers, fds)


def recv_fds(
    line: sockets.socket, size: int, most: int, flags: int = 0
) -> tuple[bytes, list[int], int, object]:
    """Receive bytes and descriptors (socket.recv_fds)."""
    from socket import recv_fds as receive

    return receive(line, size, most, flags)


def thread(run: Callable[[], object], name: str | None = None) -> threading.Thread:
    """Start a thread that does not keep the process alive (threading.Thread)."""
    from threading import Thread

    started = Thread(target=run, name=name, daemon=True)
    started.start()
    return started


def condition() -> threading.Condition:
    """Return a new condition (threading.Condition)."""
    from threading import Condition

    return Condition()


@functools.cache
def _libc() -> ctypes.CDLL:
    """Return the C library, loaded only once: forks of this process call it, too."""
    import ctypes

    return ctypes.CDLL(None, use_errno=True)


def prctl(option: int, value: int) -> None:
    """Change a property of this process (prctl(2)).

    Raises:
        OSError: the kernel refuses.
    """
    import ctypes

    if _libc().prctl(option, value, 0, 0, 0) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def set_pipe_size(fd: int, size: int) -> None:
    """Change the capacity of a pipe, in bytes (F_SETPIPE_SZ in fcntl(2)).

    Raises:
        OSError: the kernel refuses.
    """
    import fcntl

    fcntl.fcntl(fd, 1031, size)


def fork(child: Callable[[], NoReturn]) -> int:
    """Fork this process; the new process calls `child`. Return its pid.

    Signals to the new process do not reach this process's wake-up descriptor.

    Raises:
        OSError: there is no room for another process.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    try:
        pid = os.fork()
        if pid == 0:
            signal.set_wakeup_fd(-1)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    if pid == 0:
        child()
    return pid


def write_error(text: str) -> None:
    """Write text to standard error; do nothing if nobody can read it."""
    with suppress(OSError, ValueError):  # gone, full, or closed
        sys.stderr.write(text)
        sys.stderr.flush()


def use(calls: Mapping[str, object]) -> dict[str, object]:
    """Replace the functions of these names; return the former ones.

    Raises:
        KeyError: a name does not exist here.
    """
    before = {name: globals()[name] for name in calls}
    globals().update(calls)
    return before
