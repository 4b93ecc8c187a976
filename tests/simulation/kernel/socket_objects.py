"""Socket objects, as far as the launcher uses them."""

from __future__ import annotations

import array
import errno
import os
import socket
import struct
from socket import AF_INET, AF_INET6, SOCK_NONBLOCK, SOCK_STREAM
from typing import TYPE_CHECKING, Any

from .descriptors import Description
from .network import LinkEnd
from .process import error
from .sockets import KIND, LOOPBACK, NamedSocket, PairEnd, TcpSocket, named, pair

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from types import TracebackType

    from .kernel import Kernel


class Socket:
    """A socket.socket object. It may be open in one process and closed in another, after a fork."""

    def __init__(self, kernel: Kernel, fd: int) -> None:
        self._kernel = kernel
        self._fd = fd
        self._number = kernel.new_object()
        description = kernel.process.get(fd)
        self.family = getattr(description, "family", socket.AF_UNIX)
        self.type = getattr(description, "kind_of", socket.SOCK_STREAM)
        self.proto = 0

    def fileno(self) -> int:
        """Return the descriptor, -1 if it is closed."""
        return self._fd if self._number in self._kernel.process.objects else -1

    def close(self) -> None:
        """Close the descriptor."""
        process = self._kernel.enter()
        if self._number in process.objects:
            process.objects.discard(self._number)
            process.remove(self._fd)

    def detach(self) -> int:
        """Give the descriptor away."""
        fd = self.fileno()
        self._kernel.process.objects.discard(self._number)
        return fd

    def __enter__(self) -> Socket:
        """Return this."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close it."""
        self.close()

    def _get(self) -> Description:
        self._kernel.enter()
        return self._kernel.process.get(self.fileno())

    def _pair(self) -> PairEnd:
        description = self._get()
        if isinstance(description, PairEnd):
            return description
        unconnected = isinstance(description, TcpSocket | NamedSocket)
        raise error(errno.ENOTCONN if unconnected else errno.ENOTSOCK)

    def _tcp(self) -> TcpSocket:
        description = self._get()
        if isinstance(description, TcpSocket):
            return description
        raise error(errno.EOPNOTSUPP)

    def _network_line(self) -> Description | None:
        """Return what a connection to another host is, None if this is none."""
        description = self._get()
        connected = isinstance(description, TcpSocket) and description.end is not None
        return description if connected or isinstance(description, LinkEnd) else None

    def setblocking(self, blocking: bool) -> None:
        """Change whether calls wait."""
        description = self._get()
        description.flags &= ~os.O_NONBLOCK
        description.flags |= 0 if blocking else os.O_NONBLOCK

    def getblocking(self) -> bool:
        """Return whether calls wait."""
        return not self._get().nonblocking

    def settimeout(self, seconds: float | None) -> None:
        """Change whether calls wait; they wait for ever or not at all."""
        self.setblocking(seconds is None or seconds > 0)

    def set_inheritable(self, inheritable: bool) -> None:
        """Change whether an exec closes it."""
        self._get()
        self._kernel.process.slots[self._fd].cloexec = not inheritable

    def setsockopt(self, level: int, option: int, value: Any, length: int | None = None) -> None:
        """Set an option."""
        del length
        description = self._get()
        if level != socket.SOL_SOCKET:
            return
        if option == socket.SO_SNDBUF and isinstance(description, PairEnd):
            description.room = 2 * min(int(value), 212992)
        elif option == socket.SO_REUSEADDR and isinstance(description, TcpSocket):
            description.reuse = bool(value)

    def getsockopt(self, level: int, option: int, length: int = 0) -> Any:
        """Return an option."""
        description = self._get()
        if (level, option) == (socket.SOL_SOCKET, socket.SO_PEERCRED):
            pid, uid = getattr(description, "maker", (0, 0))
            return struct.pack("3i", pid, uid, uid)
        if (level, option) == (socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
            return int(getattr(description, "listening", False))
        if (level, option) == (socket.SOL_SOCKET, socket.SO_ERROR):
            found: int = getattr(description, "failed", 0)
            return found
        if (level, option) == (socket.SOL_SOCKET, socket.SO_TYPE):
            return self.type
        return bytes(length) if length else 0

    def connect(self, address: Any) -> None:
        """Connect to a port of a host, by its address, or to a name on this host."""
        description = self._get()
        if isinstance(description, NamedSocket):
            process = self._kernel.process
            process.install(description.connect(address), process.slots[self._fd].cloexec, self._fd)
        else:
            self._tcp().connect(str(address[0]), int(address[1]))

    def connect_ex(self, address: Any) -> int:
        """Connect, and return the number of the error, 0 for none."""
        try:
            self.connect(address)
        except OSError as problem:
            return problem.errno or 0
        return 0

    def bind(self, address: Any) -> None:
        """Take a port, or a name."""
        description = self._get()
        if isinstance(description, NamedSocket):
            description.bind(address)
        elif not isinstance(description, PairEnd):  # nothing in a world looks for such a name
            self._tcp().bind(address[0], address[1])

    def listen(self, backlog: int = 128) -> None:
        """Listen at the port, or the name."""
        del backlog
        description = self._get()
        (description if isinstance(description, NamedSocket) else self._tcp()).listen()

    def accept(self) -> tuple[Socket, Any]:
        """Wait for a connection; the address of the other end is not told."""
        description = self._get()
        listener = description if isinstance(description, NamedSocket) else self._tcp()
        while (end := listener.accept()) is None:
            self._kernel.descriptors.wait(listener, "inet_csk_accept")
        return Socket(self._kernel, self._kernel.process.install(end)), ""

    def _accept(self) -> tuple[int, Any]:
        """Wait for a connection; return its descriptor, as a plain socket does."""
        made, address = self.accept()
        return made.detach(), address

    def getsockname(self) -> Any:
        """Return the address."""
        description = self._get()
        if isinstance(description, TcpSocket):
            if description.family == socket.AF_INET6:
                return (description.address or "::", description.port, 0, 0)
            return (description.address or "0.0.0.0", description.port)
        return ""

    def send(self, data: Any, flags: int = 0) -> int:
        """Send data."""
        line = self._network_line()
        if line is not None:
            return self._kernel.descriptors.write(line, bytes(data))
        return self.sendmsg([data], (), flags)

    def sendall(self, data: Any, flags: int = 0) -> None:
        """Send all data."""
        rest = memoryview(data).cast("B")
        while rest:
            rest = rest[self.send(rest, flags) :]

    def sendmsg(
        self,
        buffers: Iterable[Any],
        ancdata: Iterable[tuple[int, int, Any]] = (),
        flags: int = 0,
    ) -> int:
        """Send data and descriptors."""
        fds = [fd for _, _, data in ancdata for fd in array.array("i", bytes(data))]
        return self.give(b"".join(map(bytes, buffers)), fds, flags)

    def give(self, data: bytes, fds: Sequence[int], flags: int) -> int:
        """Send data and descriptors; a stream takes all if it may wait."""
        line = self._pair()
        descriptions, done = named(self._kernel.process, fds), 0
        while True:
            taken = line.send(data[done:], descriptions)
            done += taken or 0
            descriptions = descriptions if taken is None else []
            if taken is not None and (done >= len(data) or line.nonblocking):
                break
            if taken is None:
                if flags & socket.MSG_DONTWAIT:
                    raise error(errno.EAGAIN)
                self._kernel.descriptors.wait(line, "sock_alloc_send_pskb")
        self._kernel.process.moved += done
        return done

    def take(self, size: int, flags: int) -> tuple[bytes, list[Description]]:
        """Receive data and descriptions."""
        line = self._pair()
        if flags & socket.MSG_PEEK and line.arrived:
            return line.arrived[0][0][:size], []
        while (found := line.receive(size)) is None:
            if flags & socket.MSG_DONTWAIT:
                raise error(errno.EAGAIN)
            self._kernel.descriptors.wait(line, "unix_stream_read_generic")
        self._kernel.process.moved += len(found[0])
        return found

    def recv(self, size: int, flags: int = 0) -> bytes:
        """Receive data."""
        line = self._network_line()
        if line is not None:
            return self._kernel.descriptors.read(line, size)
        data, descriptions = self.take(size, flags)
        for one in descriptions:
            one.drop()
        return data

    def recv_into(self, buffer: Any, nbytes: int = 0, flags: int = 0) -> int:
        """Receive data into a buffer."""
        view = memoryview(buffer).cast("B")
        data = self.recv(nbytes or len(view), flags)
        view[: len(data)] = data
        return len(data)

    def take_fds(self, size: int, most: int, flags: int) -> tuple[bytes, list[int], int]:
        """Receive data and descriptors; with the flags of the message."""
        data, descriptions = self.take(size, flags)
        process, fds = self._kernel.process, []
        for number, one in enumerate(descriptions):
            if number < most:
                fds.append(process.install(one, bool(flags & socket.MSG_CMSG_CLOEXEC)))
            one.drop()
        return data, fds, socket.MSG_CTRUNC if len(descriptions) > most else 0

    def recvmsg(
        self, size: int, ancbufsize: int = 0, flags: int = 0
    ) -> tuple[bytes, list[tuple[int, int, bytes]], int, Any]:
        """Receive data, and descriptors as ancillary data."""
        data, fds, found = self.take_fds(size, ancbufsize // 4, flags)
        rights = (socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds).tobytes())
        return data, [rights] if fds else [], found, None

    def shutdown(self, how: int) -> None:
        """End one direction, or both."""
        self._pair().shutdown(how)


class RouteProbe:
    """A datagram socket, which only tells from which address it would send."""

    def __init__(self, address: str) -> None:
        self._address = address

    def __enter__(self) -> RouteProbe:
        return self

    def __exit__(self, *_error: object) -> None:
        """Close nothing."""

    def connect(self, address: tuple[str, int]) -> None:
        """Find a route, which there always is."""
        del address

    def getsockname(self) -> tuple[str, int]:
        """Return this host's address."""
        return self._address, 0


class SocketCalls:
    """The system calls of sockets."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel

    def socket(
        self, family: int = -1, kind: int = -1, proto: int = -1, *, fileno: int | None = None
    ) -> Socket | RouteProbe:
        """Return a new socket, or that of a descriptor."""
        del proto
        process = self._kernel.enter()
        if fileno is not None:
            description = process.get(fileno)
            if not isinstance(description, PairEnd | TcpSocket):
                raise error(errno.ENOTSOCK)
            return Socket(self._kernel, fileno)
        family = AF_INET if family == -1 else family
        kind = SOCK_STREAM if kind == -1 else kind
        if kind & KIND == socket.SOCK_DGRAM:
            return RouteProbe(process.host.address)
        if family not in {AF_INET, AF_INET6} or kind & KIND != SOCK_STREAM:
            raise error(errno.EAFNOSUPPORT)
        inode = self._kernel.descriptors.inode()
        one = TcpSocket(inode, process.host, family, process.uid)
        one.flags |= os.O_NONBLOCK if kind & SOCK_NONBLOCK else 0
        return Socket(self._kernel, process.install(one))

    def addresses_of(self, host: str) -> set[str]:
        """Return the address of a host."""
        return {self._kernel.hosts[host].address}

    def if_nameindex(self) -> list[tuple[int, str]]:
        """Return no interface."""
        return []

    def resolve(self, host: str, port: int) -> list[tuple[int, tuple[object, ...]]]:
        """Return the address of a host, which may be named by it, and a port."""
        if host in {"localhost", LOOPBACK}:
            return [(AF_INET, (LOOPBACK, port))]
        addresses = {one.address: one for one in self._kernel.hosts.values()}
        found = self._kernel.hosts.get(host) or addresses.get(host)
        if found is None:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return [(AF_INET, (found.address, port))]

    def plain_socket(
        self, family: int = -1, kind: int = -1, *, fileno: int | None = None
    ) -> Socket:
        """Return a unix socket, where the host has names for them, or that of a descriptor."""
        del family, kind
        process = self._kernel.enter()
        if fileno is not None:
            return Socket(self._kernel, fileno)
        if not process.host.has_names:
            raise error(errno.EADDRINUSE)
        maker = process.pid, process.uid
        one = NamedSocket(self._kernel.descriptors.inode(), process.host, maker)
        return Socket(self._kernel, process.install(one))

    def socketpair(self, kind: int = SOCK_STREAM) -> tuple[Socket, Socket]:
        """Return two connected sockets."""
        process, inode = self._kernel.enter(), self._kernel.descriptors.inode
        one, other = pair((inode(), inode()), kind, (process.pid, process.uid))
        first = Socket(self._kernel, process.install(one))
        return first, Socket(self._kernel, process.install(other))

    def send_fds(self, line: Socket, buffers: Iterable[bytes], fds: Sequence[int]) -> int:
        """Send bytes and descriptors."""
        return line.give(b"".join(buffers), fds, 0)

    def recv_fds(
        self, line: Socket, size: int, most: int, flags: int = 0
    ) -> tuple[bytes, list[int], int, object]:
        """Receive bytes and descriptors."""
        return (*line.take_fds(size, most, flags), None)
