"""Sockets: connected pairs, and TCP sockets that hold ports."""

from __future__ import annotations

import errno
import os
import socket
import stat
from collections import deque
from typing import TYPE_CHECKING

from .descriptors import ERR, HUP, IN, OUT, RDHUP, Description
from .process import error

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .host import Host
    from .network import LinkEnd
    from .process import Process

SEND_BUFFER = 212992

OVERHEAD = 768
"""Bytes that the kernel counts for each message, beside its data."""

LOOPBACK = "127.0.0.1"

KIND = 0xF
"""The bits of a socket's kind; the others are flags."""


class PairEnd(Description):
    """One end of a socket pair.

    Attributes:
        kind_of: SOCK_STREAM or SOCK_SEQPACKET.
        peer: the other end, None once it is closed.
        maker: the pid and user of the process that has made it.
        arrived: messages, with the descriptions that came with them, and what they count for.
        waiting: what the other end has not read yet counts for.
    """

    kind = "socket"
    mode = stat.S_IFSOCK | 0o777

    def __init__(self, inode: int, kind_of: int, flags: int, maker: tuple[int, int]) -> None:
        super().__init__(inode, os.O_RDWR | flags)
        self.kind_of = kind_of
        self.maker = maker
        self.peer: PairEnd | None = None
        self.arrived: deque[tuple[bytes, list[Description], int]] = deque()
        self.room = SEND_BUFFER
        self.waiting = 0
        self.no_more = self.shut = False
        self.failed = 0

    def closed(self) -> None:
        """Tell the other end; what was not read is lost."""
        if self.peer is not None:
            peer, self.peer = self.peer, None
            peer.peer = None
            peer.no_more = True
            peer.waiting = 0
            peer.failed = errno.ECONNRESET if self.arrived else 0
            peer.changed()
        for _, descriptions, _ in self.arrived:
            for one in descriptions:
                one.drop()
        self.arrived.clear()

    def events(self) -> int:
        """Return what it is ready for."""
        found = IN if self.arrived or self.no_more else 0
        found |= RDHUP if self.no_more else 0
        found |= OUT if self.waiting * 4 <= self.room else 0
        found |= HUP if self.peer is None or (self.no_more and self.shut) else 0
        return found | (ERR if self.failed else 0)

    def try_read(self, size: int) -> bytes | None:
        """Read data; descriptions that came with it are lost."""
        found = self.receive(size)
        if found is None:
            return None
        for one in found[1]:
            one.drop()
        return found[0]

    def receive(self, size: int) -> tuple[bytes, list[Description]] | None:
        """Return a message, or part of the stream, with its descriptions."""
        if not self.arrived:
            if self.failed:
                number, self.failed = self.failed, 0
                raise error(number)
            return (b"", []) if self.no_more else None
        stream = self.kind_of == socket.SOCK_STREAM
        found, descriptions = self._next(size, stream)
        while stream and self.arrived and len(found) < size:
            if descriptions or self.arrived[0][1]:
                break
            found += self._next(size - len(found), stream)[0]
        if self.peer is not None:
            self.peer.changed()
        return found, descriptions

    def _next(self, size: int, stream: bool) -> tuple[bytes, list[Description]]:
        """Take a message, or its beginning from a stream."""
        data, descriptions, cost = self.arrived.popleft()
        if stream and len(data) > size:
            self.arrived.appendleft((data[size:], [], cost))
        elif self.peer is not None:
            self.peer.waiting -= cost
        return data[:size], descriptions

    def try_write(self, data: bytes) -> int | None:
        """Send data."""
        return self.send(data, ())

    def send(self, data: bytes, descriptions: Sequence[Description]) -> int | None:
        """Send data with descriptions."""
        if self.failed:
            number, self.failed = self.failed, 0
            raise error(errno.EPIPE if number == errno.ECONNRESET else number)
        if self.peer is None or self.shut:
            raise error(errno.EPIPE)
        room = self.room - self.waiting
        stream = self.kind_of == socket.SOCK_STREAM
        if not stream and len(data) > self.room:
            raise error(errno.EMSGSIZE)
        if room <= 0 or (not stream and len(data) > room):
            return None
        data = data[:room]
        if data or not stream:
            for one in descriptions:
                one.refs += 1
            cost = len(data) + OVERHEAD
            self.peer.arrived.append((data, [*descriptions], cost))
            self.waiting += cost
            self.peer.changed()
        return len(data)

    def shutdown(self, how: int) -> None:
        """End one direction, or both; that the other end is gone is no error."""
        peer = self.peer or self
        if how in {socket.SHUT_WR, socket.SHUT_RDWR}:
            self.shut = peer.no_more = True
        if how in {socket.SHUT_RD, socket.SHUT_RDWR}:
            self.no_more = peer.shut = True
        self.changed()
        peer.changed()


def pair(inodes: tuple[int, int], kind: int, maker: tuple[int, int]) -> tuple[PairEnd, PairEnd]:
    """Return two connected ends."""
    flags = os.O_NONBLOCK if kind & socket.SOCK_NONBLOCK else 0
    one, other = (PairEnd(inode, kind & KIND, flags, maker) for inode in inodes)
    one.peer, other.peer = other, one
    return one, other


class TcpSocket(Description):
    """A TCP socket: it can hold a port and listen there, or connect.

    Attributes:
        end: of its connection, once there is one.
        backlog: the other ends of connections that wait to be accepted.
    """

    kind = "socket"
    mode = stat.S_IFSOCK | 0o777

    def __init__(self, inode: int, host: Host, family: int, uid: int) -> None:
        super().__init__(inode, os.O_RDWR)
        self.host = host
        self.family = family
        self.uid = uid
        self.address = ""
        self.port = 0
        self.listening = self.reuse = False
        self.failed = 0
        self.connecting = self.connected = False
        self.end: LinkEnd | None = None
        self.backlog: list[LinkEnd] = []
        self._listener: TcpSocket | None = None

    def connect(self, address: str, port: int) -> None:
        """Begin to connect: nobody answers on a network that is cut.

        Raises:
            OSError: the attempt has begun (EINPROGRESS).
        """
        kernel = self.host.kernel
        self.connecting = True
        hosts = kernel.hosts.values()
        there = self.host if address == LOOPBACK else None
        there = there or next((one for one in hosts if one.address == address), None)
        if there is not None:
            seconds = 2 * kernel.network.delay(self.host, there)
            kernel.at(seconds, lambda: self._answered(there, port))
        raise error(errno.EINPROGRESS)

    def _answered(self, there: Host, port: int) -> None:
        network = self.host.kernel.network
        if network.is_cut(self.host, there) or network.is_cut(there, self.host) or not there.on:
            return
        found = (one for one in there.ports.get(port, ()) if one.listening)
        self._listener = next(found, None)
        self.failed = 0 if self._listener is not None else errno.ECONNREFUSED
        self.connecting, self.connected = False, True
        if self._listener is not None and self.refs:
            self.end, other = network.link(self.host, there, self)
            self._listener.backlog.append(other)
            self._listener.changed()
        self.changed()

    def accept(self) -> LinkEnd | None:
        """Return the end of a new connection, if there is one."""
        return self.backlog.pop(0) if self.backlog else None

    def try_read(self, size: int) -> bytes | None:
        """Read from the connection."""
        return self._connection().try_read(size)

    def try_write(self, data: bytes) -> int | None:
        """Write to the connection."""
        return self._connection().try_write(data)

    def _connection(self) -> LinkEnd:
        if self.end is None:
            raise error(errno.ENOTCONN)
        return self.end

    def closed(self) -> None:
        """Release the port; end the connection, or those that nobody has accepted."""
        network = self.host.kernel.network
        for one in self.backlog:
            network.reset(one)
        if self.end is not None and self._waits():
            network.forget(self.end)
        elif self.end is not None:
            self.end.closed()
        holders = self.host.ports.get(self.port, [])
        if self in holders:
            holders.remove(self)
            if not holders:
                del self.host.ports[self.port]

    def _waits(self) -> bool:
        """Return whether nobody has accepted the connection, which is forgotten then."""
        backlog = self._listener.backlog if self._listener is not None else []
        here = self._connection()
        waiting = [one for one in backlog if one.incoming is here.outgoing]
        for one in waiting:
            backlog.remove(one)
        return bool(waiting)

    def events(self) -> int:
        """Return what it is ready for."""
        if self.end is not None:
            return self.end.events()
        if self.connected:
            return OUT
        if self.listening:
            return IN if self.backlog else 0
        return 0 if self.connecting else OUT | HUP

    def bind(self, address: str, port: int) -> None:
        """Take a port, any free one for 0.

        Raises:
            OSError: it is taken.
        """
        if self.port:
            raise error(errno.EINVAL)
        self.address = "" if address in {"", "0.0.0.0", "::"} else address
        port = port or self.host.free_port()
        if self._conflict(port):
            raise error(errno.EADDRINUSE)
        self.port = port
        self.host.ports.setdefault(port, []).append(self)

    def listen(self) -> None:
        """Listen at the port.

        Raises:
            OSError: another socket does.
        """
        if not self.port:
            self.bind("", 0)
        if not self.listening and self._conflict(self.port):
            raise error(errno.EADDRINUSE)
        self.listening = True
        self.changed()

    def _conflict(self, port: int) -> bool:
        """Return whether another socket forbids this one to have a port (socket(7))."""
        for other in self.host.ports.get(port, ()):
            overlap = not self.address or not other.address or self.address == other.address
            allowed = self.reuse and other.reuse and not other.listening
            if other is not self and overlap and not allowed:
                return True
        return False


class NamedSocket(Description):
    """A unix socket that listens at an abstract name of its host, or connects to one.

    Attributes:
        name: where it listens, "" for nowhere.
        backlog: ends of connections that wait to be accepted.
        end: of its own connection.
    """

    kind = "socket"
    mode = stat.S_IFSOCK | 0o777

    def __init__(self, inode: int, host: Host, maker: tuple[int, int]) -> None:
        super().__init__(inode, os.O_RDWR)
        self.host = host
        self.maker = maker
        self.name = ""
        self.listening = False
        self.backlog: list[PairEnd] = []

    def bind(self, name: str) -> None:
        """Take a name.

        Raises:
            OSError: it is taken.
        """
        if name in self.host.names:
            raise error(errno.EADDRINUSE)
        self.name = name
        self.host.names[name] = self

    def listen(self) -> None:
        """Listen at the name."""
        self.listening = True

    def connect(self, name: str) -> PairEnd:
        """Return the end of a connection to who listens at a name.

        Raises:
            OSError: nobody does.
        """
        found = self.host.names.get(name)
        if found is None or not found.listening:
            raise error(errno.ECONNREFUSED)
        inode = self.host.kernel.descriptors.inode
        ours, theirs = pair((inode(), inode()), socket.SOCK_STREAM, self.maker)
        ours.maker, ours.flags = found.maker, self.flags
        found.backlog.append(theirs)
        found.changed()
        return ours

    def accept(self) -> PairEnd | None:
        """Return the end of a new connection, if there is one."""
        return self.backlog.pop(0) if self.backlog else None

    def closed(self) -> None:
        """Release the name, and end connections that nobody has accepted."""
        if self.host.names.get(self.name) is self:
            del self.host.names[self.name]
        for one in self.backlog:
            peer = one.peer
            one.closed()
            if peer is not None:
                peer.failed = errno.ECONNRESET

    def events(self) -> int:
        """Return what it is ready for."""
        return IN if self.backlog else 0


def row(number: int, one: TcpSocket) -> str:
    """Return a socket as /proc/net/tcp has it."""
    ipv6 = one.family == socket.AF_INET6
    nowhere = "0" * (32 if ipv6 else 8)
    address = nowhere
    if one.address and not ipv6:
        address = socket.inet_aton(one.address)[::-1].hex().upper()
    return (
        f"{number:4}: {address}:{one.port:04X} {nowhere}:0000 0A 00000000:00000000 00:00000000"
        f" 00000000 {one.uid:5}        0 {one.inode} 1 0000000000000000 100 0 0 10 0\n"
    )


def named(process: Process, fds: Sequence[int]) -> list[Description]:
    """Return what descriptors refer to.

    Raises:
        OSError: one is not open.
    """
    return [process.get(fd) for fd in fds]
