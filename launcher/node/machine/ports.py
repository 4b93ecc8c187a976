"""The master port, reserved on the node that will use it until rank 0 listens there."""

from __future__ import annotations

import errno
import math
import os
import re
import socket
import struct
from contextlib import suppress

from ...common import system
from ...common.network import any_address, lines_of
from ...common.records import NamedTuple
from . import processes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from .sock_diag import TcpSocket

BACKLOG = 4096

OTHER_PORT = "choose another --master_port, or omit it to get a free port"


APART = "127.77.85.69"
"""A loopback address without any connections. A socket bound to all addresses conflicts with it;
ended connections (TIME_WAIT), which have other addresses, do not conflict."""


class Reservation:
    """A port that is reserved while the job runs.

    It is held by a socket that is bound but never listens, with the option that lets rank 0's store
    bind to that port and listen there (socket(7), SO_REUSEADDR: only a listener conflicts). So the
    port cannot be lost between its choice and its use. A second socket listens until the start, so
    other nodes can try to connect in that time; no other program can bind to the port.
    """

    def __init__(self, port: int) -> None:
        """Reserve `port`, or a free one for 0.

        Raises:
            OSError: the port is taken.
        """
        if port and is_held(port):
            raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE))
        self._hold = _bound(port)
        self.port: int = self._hold.getsockname()[1]
        try:
            self._listener = _bound(self.port)
        except OSError:
            self._hold.close()
            raise
        try:
            self._listener.listen(BACKLOG)
        except OSError:
            self.close()
            raise

    def open_to_store(self) -> None:
        """Stop listening: rank 0 needs the port."""
        self._listener.close()

    def close(self) -> None:
        """Release the port."""
        self._listener.close()
        self._hold.close()


def reserved(wanted: int) -> Reservation:
    """Return the reservation of a port, or of a free port if it is taken or 0.

    Raises:
        OSError: no port is free.
    """
    try:
        return Reservation(wanted)
    except OSError:
        if not wanted:
            raise
        return Reservation(0)


def _bound(port: int) -> socket.socket:
    one = any_address()
    one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        one.bind(("", port))
    except OSError:
        one.close()
        raise
    return one


def is_held(port: int) -> bool:
    """Return whether a program has bound a port, listening or not."""
    with system.socket() as one:
        try:
            one.bind((APART, port))
        except OSError as error:
            return error.errno == errno.EADDRINUSE
    return False


_LISTENS = re.compile(
    r" *\d+: [0-9A-F]+:([0-9A-F]{4}) \S+ 0A \S+ \S+ \S+ +(\d{1,10}) +\d+ (\d{1,20})(?: |$)",
    re.ASCII,
)
"""A row of /proc/net/tcp for a listening socket: its port, user and inode."""


class ListeningSocket(NamedTuple):
    """A socket that uses a port, with the user who created it, and its inode."""

    uid: int
    inode: str


_TABLES = ("/proc/net/tcp", "/proc/net/tcp6")


def listeners(port: int) -> list[ListeningSocket]:
    """Return the sockets of this machine that listen on a port, at any address."""
    return [one for table in _TABLES for one in listening(lines_of(table), port)]


def users(wanted: Collection[int]) -> dict[int, set[int]] | None:
    """Return the users that listen on each of these ports; None if the kernel does not tell."""
    table = [line for path in _TABLES for line in lines_of(path)]
    if not table:
        return None
    found: dict[int, set[int]] = {port: set() for port in wanted}
    for row in filter(None, map(_LISTENS.match, table)):
        if (port := int(row[1], 16)) in found:
            found[port].add(int(row[2]))
    return found


def listening(table: Sequence[str], port: int) -> list[ListeningSocket]:
    """Return the sockets that listen on a port, from the lines of /proc/net/tcp (proc(5)). Pure."""
    rows = filter(None, map(_LISTENS.match, table))
    return [ListeningSocket(int(row[2]), row[3]) for row in rows if int(row[1], 16) == port]


def problem(port: int, error: OSError) -> str:
    """Return why a port cannot be used, given the kernel's error."""
    if error.errno == errno.EADDRINUSE or not port:
        return taken_problem(port)
    from ...common.port_words import refusal

    return f"{refusal(port, error)}: {OTHER_PORT}"


def taken_problem(port: int) -> str:
    """Return a message about the holder of a port; for port 0, that no port is free."""
    if not port:
        return "no port is free: see ip_local_port_range in /proc/sys/net/ipv4, and ss -tan"
    if listening_there := listeners(port):
        by = _holder(listening_there)
    elif others := _others(port):
        by = f"{_holder(others)}, which does not listen there"
    else:
        by = " by a program that does not listen yet, such as another job" * is_held(port)
    return f"port {port} is taken{by}: {OTHER_PORT}"


def _holder(sockets: Sequence[ListeningSocket]) -> str:
    """Return the process that has one of these sockets, or only its user, in words."""
    name = next(filter(None, (holder(one.inode) for one in sockets)), "")
    if not name:
        from ...common.account import user_words

        return f" by a program of {user_words(sockets[0].uid)}"
    comm = next(iter(lines_of(f"/proc/{name}/comm")), "?")
    return f" by {comm.strip()} (pid {name})"


def _others(port: int) -> list[ListeningSocket]:
    """Return the sockets that use a port without listening: connections, and bound sockets.

    Before Linux 6.8, the kernel does not list sockets that are only bound.
    """
    from .sock_diag import ANY_STATE, tcp_sockets

    with suppress(OSError, struct.error):
        families = (socket.AF_INET, socket.AF_INET6)
        found = [one for family in families for one in tcp_sockets(family, ANY_STATE)]
        return [ListeningSocket(one.uid, f"{one.inode}") for one in found if _has(one, port)]
    return []


def _has(one: TcpSocket, port: int) -> bool:
    return one.port == port and one.inode != 0  # 0: the process has closed the socket


def holder(inode: str, seconds: float = math.inf) -> str:
    """Return the pid of a process that has a socket open; "" if none is visible.

    The newest processes are examined first; the search ends after this many seconds of processor
    time.
    """
    late = system.process_time() + seconds
    for name in map(str, processes.newest_first()):
        if system.process_time() > late:
            break
        with suppress(OSError):
            if any(
                _target(name, fd) == f"socket:[{inode}]"
                for fd in system.listdir(f"/proc/{name}/fd")
            ):
                return name
    return ""


def _target(pid: str, fd: str) -> str:
    try:
        return system.readlink(f"/proc/{pid}/fd/{fd}")
    except OSError:
        return ""
