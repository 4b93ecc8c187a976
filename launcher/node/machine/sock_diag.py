"""The TCP sockets of this machine according to the kernel.

Sources: sock_diag(7), and the kernel's `inet_diag.h`.
"""

from __future__ import annotations

import socket
import struct

from ...common import system
from ...common.records import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

ESTABLISHED, LISTENING = 1 << 1, 1 << 10
"""States of sockets, as a bit of a question."""

ANY_STATE = 0x3FFF
"""Mask of all states, even of sockets that are bound but neither listen nor are connected (from
Linux 6.8 on)."""

_SOCK_DIAG, _BY_FAMILY, _DUMP = 4, 20, 0x301
_INFO = 2
"""The attribute with `struct tcp_info`; in a request, as a bit from 1 on."""

_HEAD = struct.Struct("=IHHII")
_REQUEST = struct.Struct("=BBBxI48x")
_ATTRIBUTE = struct.Struct("=HH")
_SOCKET = struct.Struct("=4x2s2s16x16s24xII")
"""Of `struct inet_diag_msg`: both ports, the peer's address, the user and the inode."""

_BUFFER = 1 << 16
_PATIENCE = 1.0


class TcpSocket(NamedTuple):
    """A socket.

    Attributes:
        port: its own.
        peer: the IP address of the other end, as bytes.
        inode: its number, as in the links of /proc/PID/fd.
        info: `struct tcp_info`, b"" if the kernel does not tell.
    """

    port: int
    peer_port: int
    peer: bytes
    uid: int
    inode: int
    info: bytes


def tcp_sockets(family: int, states: int) -> Iterator[TcpSocket]:
    """Yield the sockets of an address family that are in some of these states.

    Raises:
        OSError, struct.error: the kernel does not tell.
    """
    body = _REQUEST.pack(family, socket.IPPROTO_TCP, 1 << (_INFO - 1), states)
    kind = socket.SOCK_RAW | socket.SOCK_CLOEXEC
    with system.socket(socket.AF_NETLINK, kind, _SOCK_DIAG) as line:
        line.settimeout(_PATIENCE)
        line.send(_HEAD.pack(_HEAD.size + len(body), _BY_FAMILY, _DUMP, 1, 0) + body)
        while data := line.recv(_BUFFER):
            for number, message in messages(data):
                if number != _BY_FAMILY:  # the end, or an error
                    return
                yield parsed(family, message)


def messages(data: bytes) -> Iterable[tuple[int, bytes]]:
    """Yield number and body of each message in some bytes. Pure.

    Raises:
        struct.error: they end within one.
    """
    at = 0
    while at < len(data):
        size, number, *_ = _HEAD.unpack_from(data, at)
        yield number, data[at + _HEAD.size : at + size]
        at += (max(size, _HEAD.size) + 3) & ~3


def parsed(family: int, message: bytes) -> TcpSocket:
    """Return the socket in a message. Pure.

    Raises:
        struct.error: it is too short.
    """
    port, peer_port, peer, uid, inode = _SOCKET.unpack_from(message)
    own, other = (int.from_bytes(one, "big") for one in (port, peer_port))
    address = peer[:4] if family == socket.AF_INET else peer
    return TcpSocket(own, other, address, uid, inode, _info(message))


def _info(message: bytes) -> bytes:
    at = _SOCKET.size
    while at + _ATTRIBUTE.size <= len(message):
        size, kind = _ATTRIBUTE.unpack_from(message, at)
        if kind == _INFO:
            return message[at + _ATTRIBUTE.size : at + size]
        at += (max(size, _ATTRIBUTE.size) + 3) & ~3
    return b""
