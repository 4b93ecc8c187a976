"""The kernel's counts of data on this user's TCP connections to other machines.

Source: `struct tcp_info` of the kernel's `tcp.h`.
"""

from __future__ import annotations

import os
import socket
import struct
from contextlib import suppress

from ...control.activity_messages import LinkActivity
from ...node.machine.sock_diag import ESTABLISHED, tcp_sockets

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...node.machine.sock_diag import TcpSocket

MOST_PEERS = 32
"""Peers in a report: those to which most was sent."""

_RTT, _RESENT, _ACKED, _BUSY = 68, 100, 120, 168
"""Offsets of fields in `struct tcp_info`; the last one exists since Linux 4.10."""


def links() -> tuple[LinkActivity, ...]:
    """Return the connections to each other machine, summed; () where the kernel does not tell."""
    found: dict[str, LinkActivity] = {}
    with suppress(OSError, struct.error):
        for family in (socket.AF_INET, socket.AF_INET6):
            for connection in tcp_sockets(family, ESTABLISHED):
                one = _link(family, connection)
                if one is not None:
                    known = found.get(one.peer)
                    found[one.peer] = _sum(known, one) if known else one
    return tuple(sorted(found.values(), key=lambda one: -one.sent)[:MOST_PEERS])


def _sum(known: LinkActivity, one: LinkActivity) -> LinkActivity:
    return LinkActivity(
        one.peer,
        known.sent + one.sent,
        known.busy + one.busy,
        known.resent + one.resent,
        max(known.rtt, one.rtt),
    )


def _link(family: int, one: TcpSocket) -> LinkActivity | None:
    """Return one connection, None if it is another user's or stays on this machine."""
    address = socket.inet_ntop(family, one.peer).removeprefix("::ffff:")
    if one.uid != os.getuid() or address.startswith("127.") or address == "::1" or not one.info:
        return None
    rtt, resent = (struct.unpack_from("=I", one.info, at)[0] for at in (_RTT, _RESENT))
    (sent,) = struct.unpack_from("=Q", one.info, _ACKED)
    busy, no_room = struct.unpack_from("=QQ", one.info, _BUSY)
    return LinkActivity(address, sent, max(0, busy - no_room) / 1e6, resent, rtt / 1e6)
