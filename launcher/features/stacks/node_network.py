"""The waits of processes on the network, and their received bytes, from the kernel.

A stack does not show the object of a wait: `accept` may serve clients or the process's data loader,
and asyncio's loop may watch nothing. The kernel knows: the descriptor is in
/proc/PID/task/TID/syscall (proc(5)), TCP sockets are in sock_diag(7), and servers behind a path,
such as ZeroMQ's ipc and `uvicorn --uds`, in /proc/net/unix.
"""

from __future__ import annotations

import os
import socket
import struct
from contextlib import suppress
from itertools import islice

from ...common import system
from ...common.network import lines_of
from ...common.records import NamedTuple
from ...node.machine.sock_diag import ESTABLISHED, LISTENING, tcp_sockets
from .messages import CLIENT, CLIENTS, CONNECTION, NETWORK_UNKNOWN, STORE, NetworkUse

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

MOST_THREADS, MOST_FILES = 256, 4096
"""Maximum threads and descriptors of a process to examine."""

_LISTENS = "00010000"
"""The flags of a Unix socket that listens, in /proc/net/unix (`unix_seq_show` of the kernel)."""

_NO_PORT = -1

_OWN = ("/pymp-", "listener-")
"""Parts of the paths at which `multiprocessing` listens for processes of the job."""

_INFO = struct.Struct("=8xI32xI4xI72xQ")
"""Of `struct tcp_info`: the retransmission timeout, 0 only from a kernel that does not report it;
milliseconds since data was last sent, and received; and the number of received bytes."""

_READS, _WAITS, _POLLS = "reads", "waits", "polls"

_CALLS = {
    "x86_64": {
        **dict.fromkeys((0, 19, 43, 45, 47, 288), _READS),
        **dict.fromkeys((232, 281, 441), _WAITS),
        **dict.fromkeys((7, 271), _POLLS),
    },
    "aarch64": {
        **dict.fromkeys((63, 65, 202, 207, 212, 242), _READS),
        **dict.fromkeys((22, 441), _WAITS),
        73: _POLLS,
    },
}.get(os.uname().machine, {})
"""System calls that read from their first argument, or accept there (read, readv, accept, recvfrom,
recvmsg, accept4), those that wait for all that an epoll(7) watches (epoll_wait, epoll_pwait,
epoll_pwait2), and those for all in a list (poll, ppoll)."""

_POLLED = struct.Struct("=ihh")
"""`struct pollfd`: a descriptor, and events."""

_MOST_POLLED = 64
"""Maximum descriptors in such a list; longer ones are ignored."""

_GLOO = 64, 10
"""Events and milliseconds of gloo's calls of epoll_wait (`gloo/transport/tcp/loop.cc`)."""

_TORCH = ("pt_", "gloo", "NCCL")
"""Name prefixes of torch's threads that serve other ranks."""


class Sockets(NamedTuple):
    """The sockets of this machine by their inodes.

    Attributes:
        listening: the port of each that listens; a Unix socket has none.
        received: the bytes received by each TCP connection.
        quiet: the seconds without data on each connection, where known.
        peers: the port of the other end of each TCP connection.
        accepted: the connections to a port, or a path, that listens.
    """

    listening: dict[int, int]
    received: dict[int, int]
    quiet: dict[int, float]
    peers: dict[int, int]
    accepted: frozenset[int]


class _Wait(NamedTuple):
    """The wait of one thread.

    Attributes:
        inodes: the inodes of the awaited sockets.
        gloo: whether it is a thread of gloo.
        known: whether the wait could be read.
    """

    inodes: tuple[int, ...] = ()
    gloo: bool = False
    known: bool = True


def sockets() -> Sockets:
    """Return the sockets of this machine; none where the kernel does not tell."""
    listening: dict[int, int] = {}
    received: dict[int, int] = {}
    quiet: dict[int, float] = {}
    ports: dict[int, int] = {}
    peers: dict[int, int] = {}
    with suppress(OSError, struct.error):
        for family in (socket.AF_INET, socket.AF_INET6):
            for one in tcp_sockets(family, LISTENING):
                listening[one.inode] = one.port
            for one in tcp_sockets(family, ESTABLISHED):
                ports[one.inode], peers[one.inode] = one.port, one.peer_port
                timeout, sent, heard, size = _INFO.unpack_from(one.info)
                received[one.inode] = size
                if timeout:
                    quiet[one.inode] = min(sent, heard) / 1000
    served = {*listening.values()}
    accepted = {inode for inode, port in ports.items() if port in served}
    named = [*_unix_sockets()]
    listening |= {one.inode: _NO_PORT for one in named if one.listens}
    paths = {one.path for one in named if one.listens}
    accepted |= {one.inode for one in named if one.path in paths and not one.listens}
    return Sockets(listening, received, quiet, peers, frozenset(accepted))


class _Named(NamedTuple):
    """A Unix socket with a path: one that listens, or a connection that has been accepted there."""

    inode: int
    path: str
    listens: bool


def _unix_sockets() -> Iterator[_Named]:
    """Yield the Unix sockets with a path, without those for processes of the job alone."""
    for line in lines_of("/proc/net/unix")[1:]:
        words = line.split(None, 7)
        if len(words) == 8 and words[6].isdecimal() and not any(map(words[7].__contains__, _OWN)):
            yield _Named(int(words[6]), words[7], words[3] == _LISTENS)


def use(rank: int, pid: int, known: Sockets, store: int) -> NetworkUse:
    """Return the network use of a process.

    Args:
        rank: the rank of its worker.
        pid: the pid of the process.
        known: the sockets of this machine.
        store: the port of torch's store, which is for the ranks alone.
    """
    files = dict(islice(_sockets_of(pid), MOST_FILES))
    clients = {inode for inode in files.values() if known.listening.get(inode, store) != store}
    waits = dict(_waits(pid, files))
    main = waits.pop(pid, _Wait(known=False))
    others = {inode for one in waits.values() if not one.gloo for inode in one.inodes}
    gloo = {inode for one in waits.values() if one.gloo for inode in one.inodes}
    return NetworkUse(
        rank=rank,
        pid=pid,
        awaits=_awaits(main.inodes, clients, known, store) if main.known else NETWORK_UNKNOWN,
        others=_awaits(others, clients, known, store),
        received=sum(known.received.get(inode, 0) for inode in {*files.values()}),
        quiet=min((known.quiet[inode] for inode in gloo if inode in known.quiet), default=-1.0),
    )


def _awaits(inodes: Iterable[int], clients: set[int], known: Sockets, store: int) -> str:
    """Return the kind of wait of threads that wait for these sockets."""
    found = {*inodes}
    if found & clients:
        return CLIENTS
    if found & known.accepted:
        return CLIENT
    if any(known.peers.get(inode) == store for inode in found):
        return STORE
    return CONNECTION if found & known.received.keys() else ""


def _sockets_of(pid: int) -> Iterator[tuple[int, int]]:
    """Yield the descriptors of a process that are sockets, with their inodes."""
    folder = f"/proc/{pid}/fd"
    with suppress(OSError):  # it has ended, or is another user's
        for name in system.listdir(folder):
            with suppress(OSError):  # it is closed
                target = system.readlink(f"{folder}/{name}")
                if target.startswith("socket:["):
                    yield int(name), int(target[8:-1])


def _waits(pid: int, files: dict[int, int]) -> Iterator[tuple[int, _Wait]]:
    """Yield the waits of a process's threads, without torch's threads that serve ranks."""
    folder = f"/proc/{pid}/task"
    with suppress(OSError):  # it has ended
        for task in islice(system.listdir(folder), MOST_THREADS):
            with suppress(OSError):  # the thread has ended
                wait = _wait(pid, _line(f"{folder}/{task}/syscall"), files)
                counts = wait.inodes and not _of_torch(f"{folder}/{task}/comm")
                if int(task) == pid or wait.gloo or counts:
                    yield int(task), wait


def _of_torch(comm: str) -> bool:
    return _line(comm).startswith(_TORCH)


def _wait(pid: int, call: str, files: dict[int, int]) -> _Wait:
    """Return the wait of a thread, given its line of /proc/PID/task/TID/syscall."""
    words = call.split()
    if not words or words[0] == "running" or not _CALLS:
        return _Wait(known=False)
    does = _CALLS.get(int(words[0]))
    if does is None:
        return _Wait()
    number, second, *more = (int(word, 16) for word in words[1:5])
    if does is _READS:
        watched: tuple[int, ...] = (number,)
    else:
        watched = _watched(pid, number) if does is _WAITS else _polled(pid, number, second)
    inodes = tuple(files[one] for one in watched if one in files)
    return _Wait(inodes, does is _WAITS and tuple(more) == _GLOO)


def _watched(pid: int, number: int) -> tuple[int, ...]:
    """Return the descriptors that an epoll of a process watches (/proc/PID/fdinfo in proc(5))."""
    rows = (line.split() for line in _line(f"/proc/{pid}/fdinfo/{number}", 1 << 16).splitlines())
    return tuple(int(row[1]) for row in rows if len(row) > 1 and row[0] == "tfd:")


def _polled(pid: int, address: int, count: int) -> tuple[int, ...]:
    """Return the descriptors in a list in the memory of a process.

    The address is arbitrary in a call with an empty list.

    Raises:
        OSError: the memory is not readable, or not mapped.
    """
    if not 0 < count <= _MOST_POLLED or address >> 63:
        return ()
    with system.open_file(f"/proc/{pid}/mem", "rb", buffering=0) as file:
        file.seek(address)
        data = file.read(_POLLED.size * count)
    return tuple(one for one, _, _ in _POLLED.iter_unpack(data[: len(data) & -_POLLED.size]))


def _line(path: str, most: int = 256) -> str:
    with system.open_file(path, "rb", buffering=0) as file:
        return file.read(most).decode("ascii", "replace")
