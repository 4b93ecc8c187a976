"""The master port: reserved on the node that will use it, and proved reachable from the others."""

from __future__ import annotations

import os
import select
import socket
import time

from ..addresses import any_address

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

BACKLOG = 4096


class Reservation:
    """A port that nobody else is given while the job runs.

    A free port is held by a socket that is bound but never listens, with the two options that
    let rank 0's own store bind and listen on the same port beside it (socket(7), SO_REUSEADDR: a
    conflict needs a listener). So there is no moment between the choice and the use in which it
    could be lost. A second socket listens until the start, for the other nodes to try.
    """

    def __init__(self, port: int) -> None:
        """Reserve `port`, or a free one for 0.

        Raises:
            OSError: it is taken.
        """
        self._hold = _bound(port)
        self.port: int = self._hold.getsockname()[1]
        self._listener = _bound(self.port)
        try:
            self._listener.listen(BACKLOG)
        except OSError:
            self.close()
            raise

    def open_to_store(self, *, keep: bool) -> None:
        """Stop listening, so that rank 0 can; `keep` goes on holding the port."""
        self._listener.close()
        if not keep:
            self._hold.close()

    def close(self) -> None:
        """Let the port go."""
        self._listener.close()
        self._hold.close()


def _bound(port: int) -> socket.socket:
    one = any_address()
    one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    try:
        one.bind(("", port))
    except OSError:
        one.close()
        raise
    return one


def taken_problem(port: int) -> str:
    """Return who holds a port, in words."""
    holder = _holder(port)
    by = f" by {holder}" if holder else ""
    return f"port {port} is taken{by}: choose another --master_port, or none and one is found"


def _holder(port: int) -> str:
    inode = _listening_inode(port)
    for name in filter(str.isdigit, os.listdir("/proc")) if inode else ():
        try:
            fds = os.listdir(f"/proc/{name}/fd")
            if any(os.readlink(f"/proc/{name}/fd/{fd}") == f"socket:[{inode}]" for fd in fds):
                with open(f"/proc/{name}/comm", encoding="utf-8", errors="replace") as file:
                    return f"{file.read().strip()} (pid {name})"
        except OSError:
            continue
    return ""


def _listening_inode(port: int) -> str:
    """Return the inode of the socket that listens on a port (/proc/net/tcp: state 0A), or ""."""
    for path in ("/proc/net/tcp", "/proc/net/tcp6"):
        try:
            with open(path, encoding="ascii") as file:
                rows = [line.split() for line in file.read().splitlines()[1:]]
        except OSError:
            continue
        for row in rows:
            if row[3] == "0A" and int(row[1].rpartition(":")[2], 16) == port:
                return row[9]
    return ""


def reach(candidates: Sequence[str], port: int, seconds: float) -> list[str]:
    """Try to connect to a port at each address, all at once.

    Returns:
        for every candidate "" when it answered within `seconds`, else the reason in words.
    """
    verdicts = ["no answer"] * len(candidates)
    waiting = {}
    for at, address in enumerate(candidates):
        probe, verdicts[at] = _begin(address, port)
        if probe is not None:
            waiting[probe.fileno()] = (at, probe)
    deadline = time.monotonic() + seconds
    poll = select.poll()
    for fd in waiting:
        poll.register(fd, select.POLLOUT)
    while waiting and (left := deadline - time.monotonic()) > 0:
        for fd, _ in poll.poll(left * 1000):
            at, probe = waiting.pop(fd)
            poll.unregister(fd)
            number = probe.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            verdicts[at] = os.strerror(number).lower() if number else ""
            probe.close()
    for _, probe in waiting.values():
        probe.close()
    return verdicts


def _begin(address: str, port: int) -> tuple[socket.socket | None, str]:
    try:
        family, kind, proto, _, target = socket.getaddrinfo(address, port, type=socket.SOCK_STREAM)[
            0
        ]
        probe = socket.socket(family, kind, proto)
    except OSError as error:
        return None, f"does not resolve ({error.strerror})"
    probe.setblocking(False)
    try:
        probe.connect(target)
    except BlockingIOError:
        pass
    except OSError as error:
        probe.close()
        return None, (error.strerror or str(error)).lower()
    return probe, "no answer"
