"""Local control: the sockets at which runners and holds take requests of commands on this machine.

They are abstract sockets (unix(7)): no file can be left behind, and they cannot be reached from
another machine or network namespace. Anybody on this machine can bind any name and connect to any
socket, so both ends check which user the kernel reports at the other end.
"""

from __future__ import annotations

import re
import struct

# The C part of `socket`, as every runner listens: the rest would be a tenth of what it imports.
from _socket import (
    AF_UNIX,
    CMSG_SPACE,
    MSG_CMSG_CLOEXEC,
    MSG_CTRUNC,
    SCM_RIGHTS,
    SO_PEERCRED,
    SOCK_STREAM,
    SOL_SOCKET,
)

from ..common import system
from .frames import BadFrame
from .stream import READ_SIZE, FrameStream, NotFrames

TYPE_CHECKING = False
if TYPE_CHECKING:
    from _socket import socket
    from collections.abc import Sequence

JOB, HOLD = "job", "hold"
"""The kinds of sockets: of a job's runner, and of a hold."""

NAME = "[A-Za-z0-9][A-Za-z0-9._-]{0,62}"
"""Pattern of a name; the kernel's limit for the whole address is 107 bytes."""

MOST_FDS = 16
"""Descriptors that may have arrived but not been taken; the kernel's limit is 253."""

BACKLOG = 128
"""Connections that wait to be accepted."""

_CREDENTIALS = struct.Struct("3i")
_FD = struct.Struct("i")


def address(kind: str, name: str = "") -> str:
    """Return the address of a socket, without the zero byte in front; without a name its prefix."""
    return f"dsrun-{system.getuid()}-{kind}-{name}"


def is_name(text: str) -> bool:
    """Return whether a socket may have this name."""
    return re.fullmatch(NAME, text) is not None


def trusted(line: socket) -> bool:
    """Return whether the other end belongs to this user or root.

    Raises:
        OSError: the socket is not connected.
    """
    return _peer(line)[1] in {0, system.getuid()}


def pid_behind(line: socket) -> int:
    """Return the pid of the process at the other end; 0 if it has no pid here."""
    return _peer(line)[0]


def _peer(line: socket) -> tuple[int, int, int]:
    """Return pid, uid and gid of the other end (SO_PEERCRED of unix(7)).

    Raises:
        OSError: the socket is not connected.
    """
    credentials = line.getsockopt(SOL_SOCKET, SO_PEERCRED, _CREDENTIALS.size)
    pid, uid, gid = _CREDENTIALS.unpack(credentials)
    return pid, uid, gid


def listener(kind: str, name: str) -> socket:
    """Return a listening socket that does not block.

    Raises:
        OSError: the socket cannot be made; EADDRINUSE if any process of any user has this name.
    """
    made = system.plain_socket(AF_UNIX, SOCK_STREAM)
    try:
        made.setblocking(False)
        made.bind(f"\0{address(kind, name)}")
        made.listen(BACKLOG)
    except OSError:
        made.close()
        raise
    return made


class LocalStream(FrameStream):
    """Frames over a connected unix socket, which can also pass descriptors (SCM_RIGHTS)."""

    def __init__(self, line: socket) -> None:
        self._socket = line
        self._passing: tuple[int, ...] = ()
        self._arrived: list[int] = []
        line.setblocking(False)
        super().__init__(line.fileno(), line.fileno())

    def send_with(self, frame: bytes, fds: Sequence[int]) -> None:
        """Send a frame with descriptors, while nothing else is queued.

        The descriptors go with the frame's first byte, and must stay open until `pending` is less
        than the size of the frame.

        Raises:
            StreamClosed: the other end is gone.
        """
        assert not self.pending
        self._passing = tuple(fds)
        self.send(frame)

    def take(self, count: int) -> list[int]:
        """Return the descriptors of a frame, which the caller must close.

        Raises:
            BadFrame: fewer have arrived.
        """
        if len(self._arrived) < count:
            raise BadFrame(f"{count} descriptors announced, {len(self._arrived)} sent")
        taken, self._arrived = self._arrived[:count], self._arrived[count:]
        return taken

    def close(self) -> None:
        """Close the socket, and descriptors that nobody has taken; may be called twice."""
        self.read_fd = self.write_fd = -1
        self._socket.close()
        for fd in self.take(len(self._arrived)):
            system.close(fd)

    def _write(self, data: bytes) -> int:
        fds = self._passing
        rights = [(SOL_SOCKET, SCM_RIGHTS, b"".join(map(_FD.pack, fds)))] if fds else []
        count = self._socket.sendmsg([data], rights)
        self._passing = ()
        return count

    def _read(self) -> bytes:
        space = CMSG_SPACE(MOST_FDS * _FD.size)
        data, rights, flags, _ = self._socket.recvmsg(READ_SIZE, space, MSG_CMSG_CLOEXEC)
        for level, kind, content in rights:
            if (level, kind) == (SOL_SOCKET, SCM_RIGHTS):
                self._arrived += [fd for (fd,) in _FD.iter_unpack(content)]
        if flags & MSG_CTRUNC or len(self._arrived) > MOST_FDS:
            raise NotFrames(f"more than {MOST_FDS} descriptors")
        return data
