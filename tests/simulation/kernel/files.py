"""The file systems of a host."""

from __future__ import annotations

import errno
import os
import posixpath
import stat
from typing import TYPE_CHECKING

from .descriptors import Description, Null
from .process import error
from .scheduler import Queue

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .kernel import Kernel
    from .process import Process

MOST_LINKS = 40


class FileSystem:
    """One file system, with what can go wrong in it.

    Attributes:
        room: bytes that are left.
        full: whether no more can be written.
        frozen: whether each access waits, also for SIGKILL, until `thaw`.
        slow: seconds that an access may take.
    """

    def __init__(self, room: int = 1 << 40) -> None:
        self.room = room
        self.full = self.frozen = False
        self.slow = 0.0
        self.thawed = Queue()

    def freeze(self) -> None:
        """Let each access wait."""
        self.frozen = True

    def thaw(self) -> None:
        """Let those that wait go on."""
        self.frozen = False
        self.thawed.wake()


class Node:
    """A file, folder, link or device.

    Attributes:
        entries: what a folder has.
        target: where a link points to.
        made_by: the pid of the process that has made it; 0 for the world.
    """

    def __init__(self, inode: int, mode: int, system: FileSystem, uid: int = 0) -> None:
        self.inode = inode
        self.mode = mode
        self.system = system
        self.uid = uid
        self.data = bytearray()
        self.entries: dict[str, Node] = {}
        self.target = ""
        self.made_by = 0
        self.time = 0.0
        self.links = 1

    @property
    def is_folder(self) -> bool:
        """Whether it is a folder."""
        return stat.S_ISDIR(self.mode)

    def status(self) -> os.stat_result:
        """Return what stat(2) says."""
        return status_of(self.mode, self.inode, self.links, self.uid, len(self.data), self.time)


def status_of(
    mode: int, inode: int, links: int = 1, uid: int = 0, size: int = 0, time: float = 0.0
) -> os.stat_result:
    """Return a result of stat(2)."""
    whole = int(time)
    return os.stat_result(
        (mode, inode, 1, links, uid, uid, size, whole, whole, whole, time, time, time)
        + (int(time * 1e9),) * 3
    )


class OpenFile(Description):
    """A file that is open."""

    pollable = False

    def __init__(self, node: Node, path: str, flags: int) -> None:
        super().__init__(node.inode, flags)
        self.node = node
        self.path = path
        self.offset = 0
        self.mode = node.mode
        self.is_folder = node.is_folder

    def try_read(self, size: int) -> bytes | None:
        """Read at the offset."""
        if self.node.is_folder:
            raise error(errno.EISDIR)
        found = bytes(self.node.data[self.offset : self.offset + size])
        self.offset += len(found)
        return found

    def try_write(self, data: bytes) -> int | None:
        """Write at the offset, or at the end."""
        node, system = self.node, self.node.system
        if self.flags & os.O_APPEND:
            self.offset = len(node.data)
        grown = max(0, self.offset + len(data) - len(node.data))
        if grown and (system.full or system.room <= 0):
            raise error(errno.ENOSPC)
        if grown > system.room:
            data = data[: len(data) - (grown - system.room)]
            grown = system.room
        system.room -= grown
        if self.offset > len(node.data):
            node.data.extend(bytes(self.offset - len(node.data)))
        node.data[self.offset : self.offset + len(data)] = data
        self.offset += len(data)
        return len(data)

    def link(self) -> str:
        """Return its path."""
        return self.path


class TextFile(Description):
    """A file of /proc that is open: its text is made at the open."""

    mode = stat.S_IFREG | 0o444
    pollable = False

    def __init__(self, inode: int, path: str, text: bytes) -> None:
        super().__init__(inode, os.O_RDONLY)
        self.path = path
        self.text = text
        self.offset = 0

    def try_read(self, size: int) -> bytes | None:
        """Read at the offset."""
        found = self.text[self.offset : self.offset + size]
        self.offset += len(found)
        return found

    def link(self) -> str:
        """Return its path."""
        return self.path


class Files:
    """The tree of one host."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self._inodes = 100
        self.main = FileSystem()
        self.root = self._node(stat.S_IFDIR | 0o755, self.main, 0)
        for path in ("/dev", "/home", "/usr/bin"):
            self.folder(path)
        self.folder("/tmp", 0o1777)
        self.null = self._node(stat.S_IFCHR | 0o666, self.main, 0)
        self.root.entries["dev"].entries["null"] = self.null

    def _node(self, mode: int, system: FileSystem, uid: int) -> Node:
        self._inodes += 1
        node = Node(self._inodes, mode, system, uid)
        node.time = self._kernel.now
        return node

    # What the world does, at no cost and whatever the rights.

    def folder(self, path: str, mode: int = 0o755, uid: int = 0) -> Node:
        """Make a folder and those above it; return it."""
        node = self.root
        for name in path.strip("/").split("/"):
            if name not in node.entries:
                node.entries[name] = self._node(stat.S_IFDIR | mode, node.system, uid)
            node = node.entries[name]
        return node

    def put(self, path: str, data: bytes, mode: int = 0o644, uid: int = 0) -> Node:
        """Make a file."""
        above, name = posixpath.split(path)
        folder = self.folder(above)
        node = folder.entries[name] = self._node(stat.S_IFREG | mode, folder.system, uid)
        node.data[:] = data
        return node

    def mount(self, path: str, system: FileSystem | None = None) -> FileSystem:
        """Put a new file system at a folder; return it."""
        system = system or FileSystem()
        node = self.folder(path)
        node.entries.clear()
        node.system = system
        return system

    def get(self, path: str) -> Node | None:
        """Return what is at a path, links not followed."""
        node: Node | None = self.root
        for name in filter(None, path.split("/")):
            node = node.entries.get(name) if node is not None else None
        return node

    def made(self) -> list[str]:
        """Return the paths of what processes have made and not removed."""
        return [path for path, node in self._walk("", self.root) if node.made_by]

    def _walk(self, above: str, folder: Node) -> Iterator[tuple[str, Node]]:
        for name in sorted(folder.entries):
            node = folder.entries[name]
            yield f"{above}/{name}", node
            if node.is_folder:
                yield from self._walk(f"{above}/{name}", node)

    # What processes do.

    def touch(self, system: FileSystem) -> None:
        """Access a file system: it may take time, or for ever."""
        kernel = self._kernel
        if not (system.frozen or system.slow):
            return
        task = kernel.running()
        task.uninterruptible = True
        try:
            if system.slow:
                until = kernel.now + kernel.random.random() * system.slow
                while kernel.now < until:
                    kernel.wait((), until - kernel.now, "io_schedule")
            while system.frozen:
                kernel.wait((system.thawed,), where="io_schedule")
        finally:
            task.uninterruptible = False
        kernel.after_sleep(task)

    def find(self, process: Process, path: str, *, follow: bool = True) -> Node:
        """Return what is at a path.

        Raises:
            OSError: there is nothing, or it cannot be reached.
        """
        above, name = self.parent(process, path)
        node = self._in(process, above, name, path) if name else above
        for _ in range(MOST_LINKS):
            if not (follow and stat.S_ISLNK(node.mode)):
                return node
            above, name = self.parent(process, node.target, above)
            node = self._in(process, above, name, path) if name else above
        raise error(errno.ELOOP, path)

    def parent(self, process: Process, path: str, start: Node | None = None) -> tuple[Node, str]:
        """Return the folder of a path, and the last name in it; "" for the folder itself."""
        if not path:
            raise error(errno.ENOENT, path)
        names = self._names(process, path, start)
        node = start if start is not None and not path.startswith("/") else self.root
        self.touch(node.system)
        for name in names[:-1]:
            node = self._in(process, node, name, path)
            if stat.S_ISLNK(node.mode):
                node = self.find(process, node.target)
            if not node.is_folder:
                raise error(errno.ENOTDIR, path)
            self.touch(node.system)
        return node, names[-1] if names else ""

    @staticmethod
    def _names(process: Process, path: str, start: Node | None) -> list[str]:
        if start is None or path.startswith("/"):
            path = posixpath.normpath(posixpath.join(process.cwd, path))
        return [name for name in path.split("/") if name not in {"", "."}]

    def _in(self, process: Process, folder: Node, name: str, path: str) -> Node:
        if not folder.is_folder:
            raise error(errno.ENOTDIR, path)
        if not allowed(process, folder, os.X_OK):
            raise error(errno.EACCES, path)
        node = folder.entries.get(name)
        if node is None:
            raise error(errno.ENOENT, path)
        self.touch(node.system)
        return node

    def make(self, process: Process, path: str, mode: int) -> Node:
        """Make a file or folder.

        Raises:
            OSError: it cannot be made.
        """
        above, name = self.parent(process, path)
        if not name or name in above.entries:
            raise error(errno.EEXIST, path)
        if not above.is_folder:
            raise error(errno.ENOTDIR, path)
        if not allowed(process, above, os.W_OK | os.X_OK):
            raise error(errno.EACCES, path)
        if above.system.full:
            raise error(errno.ENOSPC, path)
        node = self._node(mode & ~process.umask, above.system, process.uid)
        node.made_by = process.pid
        above.entries[name] = node
        return node

    def unlink(self, process: Process, path: str) -> None:
        """Remove a file.

        Raises:
            OSError: it cannot be removed.
        """
        above, name = self.parent(process, path)
        node = self._in(process, above, name, path) if name else above
        if node.is_folder:
            raise error(errno.EISDIR, path)
        if not allowed(process, above, os.W_OK | os.X_OK):
            raise error(errno.EACCES, path)
        del above.entries[name]
        node.links -= 1
        node.system.room += len(node.data)

    def open(self, process: Process, path: str, flags: int, mode: int) -> Description:
        """Open a file, which may be made.

        Raises:
            OSError: it cannot be opened.
        """
        try:
            node = self.find(process, path, follow=not flags & os.O_NOFOLLOW)
        except FileNotFoundError:
            if not flags & os.O_CREAT:
                raise
            node = self.make(process, path, stat.S_IFREG | mode)
        else:
            self._check_open(process, node, path, flags)
        if node is self.null:
            return Null(node.inode, flags)
        if flags & os.O_TRUNC:
            self.truncate(node, 0)
        where = posixpath.normpath(posixpath.join(process.cwd, path))
        return OpenFile(node, where, flags & ~os.O_CREAT)

    @staticmethod
    def _check_open(process: Process, node: Node, path: str, flags: int) -> None:
        if flags & os.O_CREAT and flags & os.O_EXCL:
            raise error(errno.EEXIST, path)
        if stat.S_ISLNK(node.mode):
            raise error(errno.ELOOP, path)
        access = flags & os.O_ACCMODE
        if node.is_folder and access != os.O_RDONLY:
            raise error(errno.EISDIR, path)
        if flags & os.O_DIRECTORY and not node.is_folder:
            raise error(errno.ENOTDIR, path)
        wanted = {os.O_RDONLY: os.R_OK, os.O_WRONLY: os.W_OK}.get(access, os.R_OK | os.W_OK)
        if not allowed(process, node, wanted):
            raise error(errno.EACCES, path)

    @staticmethod
    def truncate(node: Node, size: int) -> None:
        """Change the size of a file."""
        node.system.room += len(node.data) - size
        if size > len(node.data):
            node.data.extend(bytes(size - len(node.data)))
        del node.data[size:]


def allowed(process: Process, node: Node, wanted: int) -> bool:
    """Return whether the mode of a file gives a process these rights."""
    if process.uid == 0:
        return True
    bits = node.mode >> 6 if process.uid == node.uid else node.mode
    return bits & wanted == wanted
