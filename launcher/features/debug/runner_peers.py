"""Whose process is at the other end of a TCP connection within this machine.

TCP has no SO_PEERCRED, but the kernel's table of connections has the user of each socket.
"""

from __future__ import annotations

import socket
import sys

from ...common.network import lines_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

TABLES = ("/proc/net/tcp", "/proc/net/tcp6")
"""A socket for IPv6 may be connected to an address of IPv4."""

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
