"""Open file descriptions: pipes, /dev/null, processes; and how calls wait for them."""

from __future__ import annotations

import errno
import os
import select
import stat
from typing import TYPE_CHECKING

from .process import error
from .scheduler import Queue

if TYPE_CHECKING:
    from .epolls import Entry
    from .kernel import Kernel
    from .process import Process

IN, OUT, ERR, HUP = select.EPOLLIN, select.EPOLLOUT, select.EPOLLERR, select.EPOLLHUP
RDHUP = select.EPOLLRDHUP

PIPE_SIZE = 65536
_PAGE = 4096


class Description:
    """An open file description (open(2)), which several descriptors may share.

    Attributes:
        flags: as of open(2).
        refs: how many descriptors, and messages on their way, have it.
        queue: who waits for a change.
        entries: where epolls wait for it.
        inode: its number in /proc.
        pollable: whether epoll takes it.
        is_folder: whether it is a folder of a file system.
    """

    kind = ""
    mode = stat.S_IFIFO | 0o600
    pollable = True
    is_folder = False

    def __init__(self, inode: int, flags: int = 0) -> None:
        self.inode = inode
        self.flags = flags
        self.refs = 0
        self.queue = Queue()
        self.entries: dict[Entry, None] = {}

    @property
    def nonblocking(self) -> bool:
        """Whether calls that would wait fail instead."""
        return bool(self.flags & os.O_NONBLOCK)

    def drop(self) -> None:
        """Close one descriptor."""
        self.refs -= 1
        if self.refs == 0:
            for entry in [*self.entries]:
                entry.remove()
            self.closed()

    def closed(self) -> None:
        """Act on the close of the last descriptor."""

    def changed(self) -> None:
        """Wake who waits."""
        self.queue.wake()
        for entry in self.entries:
            entry.notify()

    def try_read(self, size: int) -> bytes | None:
        """Return data; b"" at the end, None if there is none yet."""
        raise error(errno.EINVAL if size >= 0 else errno.EBADF)

    def try_write(self, data: bytes) -> int | None:
        """Take data; return how much, None if there is no room."""
        raise error(errno.EINVAL if data else errno.EBADF)

    def events(self) -> int:
        """Return what it is ready for."""
        return IN | OUT

    def link(self) -> str:
        """Return what the link in /proc/PID/fd says."""
        return f"{self.kind}:[{self.inode}]"

    def readable(self) -> bool:
        """Whether it was opened for reading."""
        return self.flags & os.O_ACCMODE != os.O_WRONLY

    def writable(self) -> bool:
        """Whether it was opened for writing."""
        return self.flags & os.O_ACCMODE != os.O_RDONLY


class _Buffer:
    """What a pipe holds."""

    def __init__(self) -> None:
        self.data = bytearray()
        self.size = PIPE_SIZE
        self.readers: list[PipeEnd] = []
        self.writers: list[PipeEnd] = []


class PipeEnd(Description):
    """One end of a pipe."""

    kind = "pipe"

    def __init__(self, inode: int, buffer: _Buffer, flags: int) -> None:
        super().__init__(inode, flags)
        self.buffer = buffer
        self._same = buffer.writers if self.writable() else buffer.readers
        self._same.append(self)

    def _others(self) -> list[PipeEnd]:
        return self.buffer.readers if self.writable() else self.buffer.writers

    def closed(self) -> None:
        """Tell the other end."""
        self._same.remove(self)
        self._tell()

    def _tell(self) -> None:
        for one in self._others():
            one.changed()

    def try_read(self, size: int) -> bytes | None:
        """Read what there is."""
        data = self.buffer.data
        if not data:
            return None if self.buffer.writers else b""
        was_full = self.buffer.size - len(data) < _PAGE
        found = bytes(data[:size])
        del data[:size]
        if was_full or not data:
            self._tell()
        return found

    def try_write(self, data: bytes) -> int | None:
        """Write what there is room for; up to a page is written as a whole."""
        if not self.buffer.readers:
            raise error(errno.EPIPE)
        room = self.buffer.size - len(self.buffer.data)
        if room <= 0 or (len(data) <= _PAGE and len(data) > room):
            return None if data else 0
        self.buffer.data += data[:room]
        self._tell()
        return min(room, len(data))

    def events(self) -> int:
        """Return what it is ready for."""
        if self.writable():
            room = self.buffer.size - len(self.buffer.data) >= _PAGE
            return (OUT if room else 0) | (0 if self.buffer.readers else ERR)
        return (IN if self.buffer.data else 0) | (0 if self.buffer.writers else HUP)


def pipe(inode: int, flags: int) -> tuple[PipeEnd, PipeEnd]:
    """Return the two ends of a new pipe: for reading, for writing."""
    buffer = _Buffer()
    flags &= os.O_NONBLOCK
    return PipeEnd(inode, buffer, os.O_RDONLY | flags), PipeEnd(inode, buffer, os.O_WRONLY | flags)


class Null(Description):
    """/dev/null."""

    mode = stat.S_IFCHR | 0o666
    pollable = False

    def try_read(self, size: int) -> bytes | None:
        """Return the end."""
        return b"" if size >= 0 else None

    def try_write(self, data: bytes) -> int | None:
        """Take all."""
        return len(data)

    def link(self) -> str:
        """Return its path."""
        return os.devnull


class PidFd(Description):
    """A process; ready for reading when it has ended."""

    kind = "anon_inode"
    mode = 0o600

    def __init__(self, inode: int, process: Process) -> None:
        super().__init__(inode, os.O_RDWR)
        self.process = process
        process.watchers.append(self)

    def closed(self) -> None:
        """Do not watch any more."""
        self.process.watchers.remove(self)

    def events(self) -> int:
        """Return whether it has ended."""
        return 0 if self.process.alive else IN

    def link(self) -> str:
        """Return its kind."""
        return "anon_inode:[pidfd]"


class Descriptors:
    """Reads and writes that wait."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self._inodes = 10_000

    def inode(self) -> int:
        """Return a new number."""
        self._inodes += 1
        return self._inodes

    def read(self, description: Description, size: int) -> bytes:
        """Read, and wait if need be.

        Raises:
            OSError: it failed, or would have waited.
        """
        if not description.readable():
            raise error(errno.EBADF)
        while (found := description.try_read(size)) is None:
            self.wait(description, "pipe_read")
        self._kernel.process.moved += len(found)
        return found

    def write(self, description: Description, data: bytes) -> int:
        """Write, and wait until all is written, unless it is non-blocking.

        Raises:
            OSError: it failed, or would have waited.
        """
        if not description.writable():
            raise error(errno.EBADF)
        done = 0
        while True:
            try:
                taken = description.try_write(data[done:])
            except OSError:
                if done:
                    return done
                raise
            if taken and self._kernel.leaving is not None:
                place, _, _ = description.link().partition(":[")
                self._kernel.leaving(self._kernel.process, place, data[done : done + taken])
            done += taken or 0
            if done == len(data) or (done and description.nonblocking):
                self._kernel.process.moved += done
                return done
            if not taken:
                self.wait(description, "pipe_write")

    def wait(self, description: Description, where: str) -> None:
        """Wait for a change of a description.

        Raises:
            BlockingIOError: it is non-blocking.
        """
        if description.nonblocking:
            raise error(errno.EAGAIN)
        description.refs += 1
        try:
            self._kernel.wait((description.queue,), where=where)
        finally:
            description.drop()

    def write_wakeup(self, process: Process, number: int) -> None:
        """Write the number of a signal to the wakeup descriptor of a process."""
        slot = process.slots.get(process.wakeup)
        if slot is not None:
            try:
                slot.description.try_write(bytes([number]))
            except OSError:  # Python warns at most
                return
