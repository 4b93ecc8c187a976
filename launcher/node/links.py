"""What has gone over this user's TCP connections to other machines, as the kernel counts it.

Sources: sock_diag(7), the kernel's `inet_diag.h` and `struct tcp_info` of `tcp.h`.
"""

from __future__ import annotations

import os
import socket
import struct
from contextlib import suppress

from ..control.activity_messages import LinkActivity

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

MOST_PEERS = 32
"""Machines that are reported, those to which most was sent."""

_SOCK_DIAG, _BY_FAMILY, _DUMP = 4, 20, 0x301
_INFO = 2
"""The attribute with `struct tcp_info`; in a request, as a bit from 1 on."""
_ESTABLISHED = 1 << 1

_HEAD = struct.Struct("=IHHII")
_REQUEST = struct.Struct("=BBBxI48x")
_ATTRIBUTE = struct.Struct("=HH")
_SOCKET_SIZE, _PEER, _UID = 72, 24, 64
"""Of `struct inet_diag_msg`: its size, and where the peer's address and the user are."""

_RTT, _RESENT, _ACKED, _BUSY = 68, 100, 120, 168
"""Where fields of `struct tcp_info` are; the last one is there since Linux 4.10."""

_BUFFER = 1 << 16
_PATIENCE = 1.0


def links() -> tuple[LinkActivity, ...]:
    """Return the connections to each other machine, summed; () where the kernel does not tell."""
    found: dict[str, LinkActivity] = {}
    with suppress(OSError, struct.error):
        for family in (socket.AF_INET, socket.AF_INET6):
            for message in _ask(family):
                one = _link(family, message)
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


def _ask(family: int) -> Iterator[bytes]:
    """Yield the body of each message about an established connection."""
    body = _REQUEST.pack(family, socket.IPPROTO_TCP, 1 << (_INFO - 1), _ESTABLISHED)
    kind = socket.SOCK_RAW | socket.SOCK_CLOEXEC
    with socket.socket(socket.AF_NETLINK, kind, _SOCK_DIAG) as line:
        line.settimeout(_PATIENCE)
        line.send(_HEAD.pack(_HEAD.size + len(body), _BY_FAMILY, _DUMP, 1, 0) + body)
        while data := line.recv(_BUFFER):
            for number, message in _messages(data):
                if number != _BY_FAMILY:  # the end, or an error
                    return
                yield message


def _messages(data: bytes) -> Iterable[tuple[int, bytes]]:
    at = 0
    while at < len(data):
        size, number, *_ = _HEAD.unpack_from(data, at)
        yield number, data[at + _HEAD.size : at + size]
        at += (max(size, _HEAD.size) + 3) & ~3


def _link(family: int, message: bytes) -> LinkActivity | None:
    """Return one connection, None if it is another user's or stays on this machine."""
    (uid,) = struct.unpack_from("=I", message, _UID)
    peer = message[_PEER : _PEER + 16]
    address = socket.inet_ntop(family, peer[:4] if family == socket.AF_INET else peer)
    address = address.removeprefix("::ffff:")
    info = _info(message)
    if uid != os.getuid() or address.startswith("127.") or address == "::1" or not info:
        return None
    rtt, resent = (struct.unpack_from("=I", info, at)[0] for at in (_RTT, _RESENT))
    (sent,) = struct.unpack_from("=Q", info, _ACKED)
    busy, no_room = struct.unpack_from("=QQ", info, _BUSY)
    return LinkActivity(address, sent, max(0, busy - no_room) / 1e6, resent, rtt / 1e6)


def _info(message: bytes) -> bytes:
    at = _SOCKET_SIZE
    while at + _ATTRIBUTE.size <= len(message):
        size, kind = _ATTRIBUTE.unpack_from(message, at)
        if kind == _INFO:
            return message[at + _ATTRIBUTE.size : at + size]
        at += (max(size, _ATTRIBUTE.size) + 3) & ~3
    return b""
