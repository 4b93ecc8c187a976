"""All system calls: those of descriptors and files here, the others beside this module."""

from __future__ import annotations

import errno
import os
import posixpath
import stat
from contextlib import contextmanager, suppress
from typing import IO, TYPE_CHECKING, Any

from . import proc
from .calls_processes import ClockCalls, ProcessCalls, SignalCalls
from .descriptors import PipeEnd, pipe
from .epolls import Epoll, Poll
from .file_objects import open_file
from .files import FileSystem, Node, OpenFile, allowed
from .process import error
from .socket_objects import SocketCalls

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from .kernel import Kernel
    from .process import Process


class DescriptorCalls:
    """Descriptors."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self.read = kernel.system_read
        self.write = kernel.system_write
        self.open_fd = self._open

    def _open(self, path: str | bytes, flags: int, mode: int = 0o777) -> int:
        return self._kernel.system_open(path, flags | os.O_CLOEXEC, mode)

    def close(self, fd: int) -> None:
        """Close a descriptor."""
        self._kernel.enter().remove(fd)

    def pipe2(self, flags: int) -> tuple[int, int]:
        """Return the descriptors of a new pipe."""
        me = self._kernel.enter()
        cloexec = bool(flags & os.O_CLOEXEC)
        reader, writer = pipe(self._kernel.descriptors.inode(), flags)
        first = me.install(reader, cloexec)
        return first, me.install(writer, cloexec)

    def dup(self, fd: int) -> int:
        """Return another descriptor of the same."""
        me = self._kernel.enter()
        return me.install(me.get(fd))

    def dup2(self, fd: int, fd2: int, inheritable: bool = True) -> int:
        """Let another descriptor refer to the same."""
        me = self._kernel.enter()
        description = me.get(fd)
        if fd == fd2:
            me.slots[fd].cloexec = not inheritable
        else:
            me.install(description, not inheritable, fd2)
        return fd2

    def fstat(self, fd: int) -> os.stat_result:
        """Return the status of a descriptor."""
        return proc.descriptor_status(self._kernel.enter().get(fd))

    def isatty(self, fd: int) -> bool:
        """Return whether it is a terminal."""
        self._kernel.enter().get(fd)
        return False

    def lseek(self, fd: int, offset: int, whence: int) -> int:
        """Change the offset."""
        one = self._kernel.enter().get(fd)
        if not isinstance(one, OpenFile):
            raise error(errno.ESPIPE)
        base = {os.SEEK_SET: 0, os.SEEK_CUR: one.offset, os.SEEK_END: len(one.node.data)}[whence]
        if base + offset < 0:
            raise error(errno.EINVAL)
        one.offset = base + offset
        return one.offset

    def pread(self, fd: int, size: int, offset: int) -> bytes:
        """Read from a file, wherever its own offset is."""
        one = self._kernel.enter().get(fd)
        if not isinstance(one, OpenFile):
            raise error(errno.ESPIPE)
        return bytes(one.node.data[offset : offset + size])

    def truncate(self, path: int | str | bytes, length: int) -> None:
        """Change the size of a file."""
        me = self._kernel.enter()
        if isinstance(path, int):
            one = me.get(path)
            if not isinstance(one, OpenFile) or not one.writable():
                raise error(errno.EINVAL)
            node = one.node
        else:
            node = me.host.files.find(me, os.fsdecode(path))
        me.host.files.touch(node.system)
        me.host.files.truncate(node, length)

    def set_blocking(self, fd: int, blocking: bool) -> None:
        """Change whether calls wait."""
        description = self._kernel.enter().get(fd)
        description.flags &= ~os.O_NONBLOCK
        description.flags |= 0 if blocking else os.O_NONBLOCK

    def set_inheritable(self, fd: int, inheritable: bool) -> None:
        """Change whether an exec closes it."""
        me = self._kernel.enter()
        me.get(fd)
        me.slots[fd].cloexec = not inheritable

    def memfd_create(self, name: str, flags: int = os.MFD_CLOEXEC) -> int:
        """Return a descriptor of a new file without a name."""
        me, inode = self._kernel.enter(), self._kernel.descriptors.inode()
        node = Node(inode, stat.S_IFREG | 0o777, FileSystem(), me.uid)
        one = OpenFile(node, f"/memfd:{name} (deleted)", os.O_RDWR)
        return me.install(one, bool(flags & os.MFD_CLOEXEC))

    def get_terminal_size(self, fd: int = 1) -> os.terminal_size:
        """Fail: there are no terminals."""
        self._kernel.enter().get(fd)
        raise error(errno.ENOTTY)

    def sameopenfile(self, one: int, other: int) -> bool:
        """Return whether two descriptors refer to the same file."""
        me = self._kernel.enter()
        return proc.descriptor_status(me.get(one)).st_ino == (
            proc.descriptor_status(me.get(other)).st_ino
        )

    def set_pipe_size(self, fd: int, size: int) -> None:
        """Change how much a pipe holds."""
        one = self._kernel.enter().get(fd)
        if not isinstance(one, PipeEnd):
            raise error(errno.EBADF)
        if size < len(one.buffer.data):
            raise error(errno.EBUSY)
        one.buffer.size = size

    def epoll(self, sizehint: int = -1, flags: int = 0) -> Epoll:
        """Return a new epoll object."""
        return Epoll(self._kernel, sizehint, flags)

    def poll(self) -> Poll:
        """Return a new poll object."""
        return Poll(self._kernel)

    def open_file(self, file: Any, *args: Any, **options: Any) -> IO[Any]:
        """Open a file as an object."""
        return open_file(self._kernel, file, *args, **options)

    def write_error(self, text: str) -> None:
        """Write to standard error; if nobody can read it, nothing happens."""
        data = text.encode("utf-8", "backslashreplace")
        with suppress(OSError):
            while data:
                data = data[self._kernel.system_write(2, data) :]


class FileCalls:
    """Files."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel

    def _find(self, path: str | bytes, *, follow: bool = True) -> Node:
        me = self._kernel.enter()
        return me.host.files.find(me, os.fsdecode(path), follow=follow)

    def _proc(self, path: str | bytes) -> tuple[Process, str, bool]:
        me, text = self._kernel.enter(), os.fsdecode(path)
        return me, text, proc.is_proc(me, text)

    def listdir(self, path: str | bytes = ".") -> list[Any]:
        """Return the names in a folder."""
        me, text, special = self._proc(path)
        found: Any = proc.find(me, text) if special else self._find(path)
        if special and isinstance(found, proc.Folder):
            names = found.names
        elif isinstance(found, Node) and found.is_folder:
            names = [*found.entries]
        else:
            raise error(errno.ENOTDIR, path)
        return _like(path, names)

    @contextmanager
    def scandir(self, path: str) -> Iterator[Iterator[Entry]]:
        """Have the entries of a folder."""
        yield (Entry(self, path, name) for name in self.listdir(path))

    def stat(self, path: str | bytes) -> os.stat_result:
        """Return the status of a file."""
        return self._status(path, follow=True)

    def lstat(self, path: str | bytes) -> os.stat_result:
        """Return the status of a file; a link is not followed."""
        return self._status(path, follow=False)

    def _status(self, path: str | bytes, *, follow: bool) -> os.stat_result:
        me, text, special = self._proc(path)
        try:
            if special:
                return proc.status(me, text, follow=follow)
            return self._find(path, follow=follow).status()
        except OSError as problem:
            raise error(problem.errno or 0, path) from None

    def statvfs(self, path: str | bytes) -> os.statvfs_result:
        """Return the status of a file system."""
        system = self._find(path).system
        free = 0 if system.full else system.room // 4096
        return os.statvfs_result(
            (4096, 4096, 1 << 28, free, free, 1 << 20, 1 << 19, 1 << 19, 0, 255)
        )

    def access(self, path: str | bytes, mode: int) -> bool:
        """Return whether this process may use a file."""
        try:
            me, text, special = self._proc(path)
            if special:
                proc.find(me, text)
                return not mode & os.W_OK
            return allowed(me, self._find(path), mode)
        except OSError:
            return False

    def mkdir(self, path: str | bytes, mode: int = 0o777) -> None:
        """Make a folder."""
        me = self._kernel.enter()
        me.host.files.make(me, os.fsdecode(path), stat.S_IFDIR | mode)

    def makedirs(self, name: str | bytes, mode: int = 0o777, exist_ok: bool = False) -> None:
        """Make a folder and those above it."""
        text = os.fsdecode(name)
        above = posixpath.dirname(text.rstrip("/"))
        if above and not self.exists(above):
            self.makedirs(above, exist_ok=True)
        try:
            self.mkdir(text, mode)
        except OSError:
            if not exist_ok or not self.isdir(text):
                raise

    def unlink(self, path: str | bytes) -> None:
        """Remove a file."""
        me = self._kernel.enter()
        me.host.files.unlink(me, os.fsdecode(path))

    def readlink(self, path: str | bytes) -> Any:
        """Return where a link points to."""
        me, text, special = self._proc(path)
        if special:
            found = proc.find(me, text)
            if not isinstance(found, proc.Link):
                raise error(errno.EINVAL, path)
            target = found.target
        else:
            node = self._find(path, follow=False)
            if not stat.S_ISLNK(node.mode):
                raise error(errno.EINVAL, path)
            target = node.target
        return _like(path, [target])[0]

    def isdir(self, path: str | bytes) -> bool:
        """Return whether it is a folder."""
        try:
            return stat.S_ISDIR(self.stat(path).st_mode)
        except OSError:
            return False

    def islink(self, path: str | bytes) -> bool:
        """Return whether it is a link."""
        try:
            return stat.S_ISLNK(self.lstat(path).st_mode)
        except OSError:
            return False

    def exists(self, path: str | bytes) -> bool:
        """Return whether there is something."""
        try:
            self.stat(path)
        except OSError:
            return False
        return True

    def chdir(self, path: str | bytes) -> None:
        """Change the working folder."""
        node = self._find(path)
        me = self._kernel.process
        if not node.is_folder:
            raise error(errno.ENOTDIR, path)
        if not allowed(me, node, os.X_OK):
            raise error(errno.EACCES, path)
        me.cwd = posixpath.normpath(posixpath.join(me.cwd, os.fsdecode(path)))


class Entry:
    """What `scandir` has of a file."""

    def __init__(self, calls: FileCalls, folder: str, name: str) -> None:
        self.name = name
        self._calls = calls
        self._path = posixpath.join(folder, name)

    def is_dir(self, *, follow_symlinks: bool = True) -> bool:
        """Return whether it is a folder."""
        del follow_symlinks
        return self._calls.isdir(self._path)

    def stat(self) -> os.stat_result:
        """Return its status."""
        return self._calls.stat(self._path)


def _like(path: str | bytes, names: list[str]) -> list[Any]:
    """Return names as bytes if the path is."""
    return [os.fsencode(one) for one in names] if isinstance(path, bytes) else [*names]


def all_calls(kernel: Kernel) -> dict[str, Callable[..., Any]]:
    """Return all system calls by the names that `launcher/common/system.py` gives them."""
    groups = [
        group(kernel)
        for group in (
            DescriptorCalls, FileCalls, ProcessCalls, SignalCalls, ClockCalls, SocketCalls
        )
    ]  # fmt: skip
    calls = {
        name: getattr(group, name)
        for group in groups
        for name in dir(group)
        if not name.startswith("_")
    }
    if kernel.trace is None:
        return calls
    return {name: _traced(kernel, name, call) for name, call in calls.items()}


def _traced(kernel: Kernel, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
    def traced(*args: Any, **options: Any) -> Any:
        if kernel.trace is not None:
            kernel.trace(kernel.current, name, args)
        return call(*args, **options)

    return traced
