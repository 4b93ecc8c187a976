"""The port here at which an editor reaches one rank, and whose process connects to it."""

from __future__ import annotations

import os
import socket
import sys

from ...common.network import lines_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ...common.loop import Loop

BACKLOG = 8
"""Connections that wait while an editor is connected, or the rank is between two rounds."""


class DebugPort:
    """A free port on loopback, for this user and root; it stays unchanged for the whole job."""

    def __init__(
        self, loop: Loop, enter: Callable[[socket.socket], None], refused: Callable[[], None]
    ) -> None:
        """Listen, but accept nothing before `open`.

        `enter` is called with a connection, and `refused` for each of another user.

        Raises:
            OSError: there is no port, or no descriptor.
        """
        self._loop = loop
        self._enter = enter
        self._refused = refused
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        try:
            self._socket.setblocking(False)
            self._socket.bind(("127.0.0.1", 0))
            self._socket.listen(BACKLOG)
        except OSError:
            self._socket.close()
            raise
        self.port: int = self._socket.getsockname()[1]

    def open(self) -> None:
        """Accept one connection; those that come meanwhile wait."""
        if self._socket.fileno() >= 0 and not self._loop.has_reader(self._socket.fileno()):
            self._loop.add_reader(self._socket.fileno(), self._accept)

    def pause(self) -> None:
        """Accept nothing until it is opened again."""
        if self._socket.fileno() >= 0:
            self._loop.remove(self._socket.fileno())

    def close(self) -> None:
        """Give up the port."""
        self.pause()
        self._socket.close()

    def _accept(self) -> None:
        try:
            line, _ = self._socket.accept()
        except OSError:
            return  # it has gone again
        uid = owner(line)
        if uid in {0, os.getuid()}:
            self.pause()
            self._enter(line)
            return
        line.close()
        if uid is not None:
            self._refused()


TABLES = ("/proc/net/tcp", "/proc/net/tcp6")
"""Files with connections: an IPv6 socket may be connected to an IPv4 address."""

ESTABLISHED = "01"
"""State of a connection (tcp_states.h)."""


def owner(line: socket.socket) -> int | None:
    """Return the user of the other end of a connection over loopback, None if it is closed."""
    try:
        peer, own = line.getpeername(), line.getsockname()
    except OSError:
        return None
    # The table may miss a row while others come and go.
    found = (uid_of(lines_of(table), peer, own) for table in TABLES * 2)
    return next((uid for uid in found if uid is not None), None)


def uid_of(table: Iterable[str], local: tuple[str, int], remote: tuple[str, int]) -> int | None:
    """Return the user of the socket that connects two addresses, or None. Pure.

    A socket that its process has closed has user 0 and no inode there: it is ignored.

    Args:
        table: the lines of a table (proc(5)).
        local: address and port of the socket's end.
        remote: address and port of the other end.
    """
    ends = {(_hex(local, wide), _hex(remote, wide)) for wide in (False, True)}
    for row in map(str.split, table):
        if len(row) > 9 and (row[1], row[2]) in ends:
            open_ = row[3] == ESTABLISHED and row[9] != "0"
            return int(row[7]) if open_ else None
    return None


def _hex(end: tuple[str, int], wide: bool) -> str:
    """Return an address of IPv4 as the tables have it: words in the byte order of the machine."""
    words = [socket.inet_aton(end[0])]
    if wide:
        words = [bytes(4), bytes(4), b"\0\0\xff\xff", *words]
    address = "".join(f"{int.from_bytes(word, sys.byteorder):08X}" for word in words)
    return f"{address}:{end[1]:04X}"
