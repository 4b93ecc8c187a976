"""Changes a copy: all data is first received next to it, then renamed into place.

A journal lists the steps. An interrupted change is completed by the next sync, before
anything runs there. Each step may be repeated.
"""

from __future__ import annotations

import ctypes
import errno
import hashlib
import os
from contextlib import suppress

from ...common.private_folder import LINK_FAULT, private_folder
from ...specs.environment import from_wire
from .manifest import FILE, FOLDER, LINK, ManifestEntry
from .node_changes import untouched
from .node_folder import PlacedEntry
from .node_tree import BLOCK, Tree

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from .node_changes import Changes
    from .node_folder import SyncFolder

    Read = Callable[[int], bytes]


def made_copy(folder: SyncFolder) -> Tree:
    """Make the folder of the copy, and return the tree of the copy.

    Raises:
        OSError: something else is in its place.
    """
    private_folder(folder.path, os.path.basename(folder.copy))
    return Tree(folder.copy)


class Incoming:
    """Receives the files and links of some changes, numbered in their order of placement."""

    def __init__(self, folder: SyncFolder, tree: Tree) -> None:
        """Start with an empty folder: data received by an earlier sync may be incomplete."""
        private_folder(folder.path, ".incoming")
        for name in os.listdir(folder.incoming):
            os.unlink(os.path.join(folder.incoming, name))
        self._folder = folder
        self._tree = tree
        self._sources: dict[str, bytes] = {}

    def take(self, changes: Changes, read: Read) -> list[PlacedEntry]:
        """Receive the new entries: `read` returns bytes of the missing contents in order.

        Raises:
            OSError: there is no room, or contents do not match the manifest.
        """
        self._sources = {digest: self._tree.at(path) for digest, path in changes.reuse.items()}
        return [self._take(at, entry, read) for at, entry in enumerate(changes.place)]

    def _take(self, at: int, entry: ManifestEntry, read: Read) -> PlacedEntry:
        path = os.fsencode(os.path.join(self._folder.incoming, str(at)))
        if entry.kind == LINK:
            os.symlink(from_wire(entry.content), path)
            return PlacedEntry(*entry, 0, 0)
        source = self._sources.get(entry.content)
        if source is None:
            found = self._write(path, entry, read)
        else:
            with open(source, "rb") as file:
                found = self._write(path, entry, file.read)
        self._sources[entry.content] = path
        return PlacedEntry(*entry, found.st_mtime_ns, found.st_ino)

    def _write(self, path: bytes, entry: ManifestEntry, read: Read) -> os.stat_result:
        found, left = hashlib.sha256(), entry.size
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        with open(os.open(path, flags, 0o600), "wb") as file:
            while left:
                data = read(min(left, BLOCK))
                if not data:
                    break
                file.write(data)
                found.update(data)
                left -= len(data)
            os.fchmod(file.fileno(), entry.mode)
            file.flush()
            if left or found.hexdigest() != entry.content:
                raise OSError(errno.EIO, f"{entry.path} changed while it was being copied")
            return os.fstat(file.fileno())


def missing(changes: Changes) -> list[ManifestEntry]:
    """Return the entries whose contents must be received, in order; contents are sent once."""
    known, needed = set(changes.reuse), []
    for entry in changes.place:
        if entry.kind == FILE and entry.content not in known:
            known.add(entry.content)
            needed.append(entry)
    return needed


def commit(
    folder: SyncFolder, digest: str, changes: Changes, received: Sequence[PlacedEntry]
) -> None:
    """Change the copy, whose new files have been received; it must not be in use."""
    folders = [PlacedEntry(*entry, 0, 0) for entry in changes.folders]
    journal = {
        "delete": changes.delete,
        "folders": [[entry.path, entry.mode] for entry in changes.folders],
        "place": [entry.path for entry in changes.place],
        "state": [digest, sorted([*changes.keep, *folders, *received])],
    }
    _flush(folder.path)
    folder.write(".journal", journal)
    complete(folder)


def complete(folder: SyncFolder) -> None:
    """Do the steps of the journal, if any; some may be done already."""
    journal = folder.read(".journal")
    if journal is None:
        return
    tree = made_copy(folder)
    for row in journal["delete"]:
        _delete(tree, PlacedEntry(*row))
    tree = Tree(folder.copy)  # without knowledge of removed folders
    for path, mode in journal["folders"]:
        _make_folder(tree, path, mode)
    for at, path in enumerate(journal["place"]):
        _place(tree, os.path.join(folder.incoming, str(at)), path)
    folder.write(".state", journal["state"])
    folder.label(journal["state"][0])
    folder.remove(".journal")


def _delete(tree: Tree, old: PlacedEntry) -> None:
    now = tree.entry(old.path)
    if now is None or not untouched(old, now, tree):
        return
    if old.kind == FOLDER:
        with suppress(OSError):  # a run has written something there
            os.rmdir(tree.at(old.path))
    else:
        os.unlink(tree.at(old.path))


def _make_folder(tree: Tree, path: str, mode: int) -> None:
    with suppress(FileExistsError):
        os.mkdir(tree.at(path))
    _check_folder(tree, path)
    os.chmod(tree.at(path), mode | 0o700)


def _place(tree: Tree, source: str, path: str) -> None:
    _check_folder(tree, path.rpartition("/")[0])
    with suppress(FileNotFoundError):  # it is in place already
        os.rename(os.fsencode(source), tree.at(path))


def _check_folder(tree: Tree, path: str) -> None:
    """Check that a path of the copy is a folder, and no link.

    Raises:
        OSError: the path is no folder, or is a link.
    """
    found = tree.entry(path) if path else None
    if path and (found is None or found.kind != FOLDER):
        link = found is not None and found.kind == LINK
        why = LINK_FAULT if link else os.strerror(errno.ENOTDIR)
        raise NotADirectoryError(errno.ENOTDIR, why, path)


def _flush(path: str) -> None:
    """Write all data on the disk of this folder, which then survives a power cut."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        ctypes.CDLL(None).syncfs(fd)
    finally:
        os.close(fd)
