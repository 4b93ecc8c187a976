"""The present state of a synced copy; links in it are never followed."""

from __future__ import annotations

import hashlib
import os
import stat

from ...common.files import open_regular
from ...common.records import NamedTuple
from ...specs.environment import from_wire
from .manifest import FILE, FOLDER, LINK

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

BLOCK = 1 << 20
"""Bytes that are read at a time."""

OTHER = "o"
"""The kind of entries that cannot be synced, such as sockets."""

_KINDS = {stat.S_IFDIR: FOLDER, stat.S_IFREG: FILE, stat.S_IFLNK: LINK}


class TreeEntry(NamedTuple):
    """An entry at a path: its kind, and for a file the values that show whether it was changed."""

    kind: str
    size: int = 0
    mtime: int = 0
    inode: int = 0


class Tree:
    """Reads a copy; paths are relative, as in a manifest."""

    def __init__(self, root: str) -> None:
        self._root = os.fsencode(root)
        self._folders: dict[str, bool] = {"": True}

    def at(self, path: str) -> bytes:
        """Return the place of a path of the manifest."""
        return os.path.join(self._root, from_wire(path))

    def entry(self, path: str) -> TreeEntry | None:
        """Return the entry at a path, or None, as for a path below a link."""
        parent = path.rpartition("/")[0]
        if parent not in self._folders:
            found = self.entry(parent)
            self._folders[parent] = found is not None and found.kind == FOLDER
        return self._read(path) if self._folders[parent] else None

    def _read(self, path: str) -> TreeEntry | None:
        try:
            status = os.lstat(self.at(path))
        except (FileNotFoundError, NotADirectoryError):
            return None
        kind = _KINDS.get(stat.S_IFMT(status.st_mode), OTHER)
        if kind != FILE:
            return TreeEntry(kind)
        return TreeEntry(kind, status.st_size, status.st_mtime_ns, status.st_ino)

    def target(self, path: str) -> str:
        """Return the target of a link."""
        return os.readlink(self.at(path)).decode("utf-8", "surrogateescape")

    def digest(self, path: str) -> str:
        """Return the SHA-256 of a file."""
        with open(open_regular(self.at(path)), "rb") as file:
            found = hashlib.sha256()
            while block := file.read(BLOCK):
                found.update(block)
        return found.hexdigest()

    def below(self, path: str) -> Iterator[str]:
        """Yield the paths of all that is in a folder, at any depth."""
        with os.scandir(self.at(path)) as items:
            for item in items:
                name = item.name.decode("utf-8", "surrogateescape")
                inner = f"{path}/{name}"
                yield inner
                if item.is_dir(follow_symlinks=False):
                    yield from self.below(inner)
