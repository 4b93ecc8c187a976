"""The folder of a synced copy on this node: its place, its users and its state.

::

    ~/.cache/dsrun/sync/NAME-KEY/   made by dsrun, for this user alone
        NAME/                       the copy, in which the workers run
        .incoming/                  received files, until all have arrived
        .journal                    the changes in progress; removed at their end
        .state                      the entries that sync has placed, as it left them
        .sync.lock                  held by the process that changes any copy of this folder
        .use.lock                   held by all runs in this copy; has the manifest's digest

If a run uses a copy whose contents would have to change, another copy is used: NAME-KEY~2.
"""

from __future__ import annotations

import fcntl
import json
import os
from contextlib import contextmanager, suppress
from itertools import count

from ...common import files
from ...common.private_folder import private_folder
from ...common.records import NamedTuple
from ...common.text import read_json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

LARGEST = 256 << 20
"""Maximum bytes of the records of a copy: some million files."""

MARK = "dsrun sync 1"
"""The first field of a state and of a journal, which marks them as dsrun's."""


class PlacedEntry(NamedTuple):
    """An entry of the manifest as sync has placed it.

    Attributes:
        mtime: the time of a file's last change then, in nanoseconds; 0 for others.
        inode: the inode of a file; 0 for other entries.
    """

    path: str
    kind: str
    mode: int
    size: int
    content: str
    mtime: int
    inode: int


class CopyState(NamedTuple):
    """The entries that sync has placed in a copy.

    Attributes:
        digest: the digest of the manifest, or "".
    """

    digest: str
    placed: dict[str, PlacedEntry]


class SyncFolder:
    """One copy of a folder, claimed if no run uses it.

    Attributes:
        path: the path of the folder that dsrun has made.
        incoming: the path of files being received.
        lock: the file that runs lock.
        claimed: whether no run uses it.
    """

    def __init__(self, path: str, name: str) -> None:
        self.path = path
        self.copy = os.path.join(path, name)
        self.incoming = os.path.join(path, ".incoming")
        self.lock = os.path.join(path, ".use.lock")
        self._fd = open_lock(self.lock)
        self.claimed = locked(self._fd)

    def share(self) -> None:
        """Allow runs to use the copy; nobody changes it until this process ends."""
        fcntl.flock(self._fd, fcntl.LOCK_SH)

    def label(self, digest: str) -> None:
        """Publish the contents of the copy to runs that use it."""
        os.pwrite(self._fd, digest.encode(), 0)

    def close(self) -> None:
        """Give it up."""
        os.close(self._fd)

    def state(self) -> CopyState:
        """Return the placed entries; none if they are unknown."""
        return _state(self.read(".state"))

    def read(self, name: str) -> Any:
        """Return the content of one of dsrun's files, None if it is missing or damaged."""
        try:
            mark, value = read_json(files.read_own(os.path.join(self.path, name), LARGEST))
        except (FileNotFoundError, ValueError, TypeError):
            return None
        return value if mark == MARK else None

    def write(self, name: str, value: Any) -> None:
        """Replace a file of dsrun's own; it survives a power cut."""
        path = os.path.join(self.path, name)
        with open(f"{path}.new", "wb") as file:
            file.write(json.dumps([MARK, value], separators=(",", ":")).encode())
            file.flush()
            os.fsync(file.fileno())
        os.rename(f"{path}.new", path)

    def remove(self, name: str) -> None:
        """Remove a file of dsrun's own."""
        with suppress(FileNotFoundError):
            os.unlink(os.path.join(self.path, name))


def locked(fd: int) -> bool:
    """Return whether a lock file is free, and locked from now on."""
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def open_lock(path: str) -> int:
    """Return a descriptor of a lock file, which is made if necessary."""
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    return os.open(path, flags, 0o600)


def choose(root: str, name: str, key: str, digest: str) -> tuple[SyncFolder, int]:
    """Return a copy that is claimed, or that has these contents already; and its number from 1 on.

    The caller holds the lock over all copies.

    Raises:
        OSError: a folder cannot be made, or is not one of this user alone.
    """
    for number in count(1):
        suffix = f"~{number}" if number > 1 else ""
        path = private_folder(root, "dsrun", "sync", f"{name}-{key}{suffix}")
        folder = SyncFolder(path, name)
        if folder.claimed or folder.state().digest == digest:
            return folder, number
        folder.close()
    raise AssertionError


@contextmanager
def all_locked(root: str, name: str, key: str, on_wait: Callable[[], None]) -> Iterator[None]:
    """Prevent others from changing a copy; `on_wait` is called if that may take a while.

    Raises:
        OSError: a folder cannot be made, or is not one of this user alone.
    """
    path = private_folder(root, "dsrun", "sync", f"{name}-{key}")
    fd = open_lock(os.path.join(path, ".sync.lock"))
    try:
        if not locked(fd):
            on_wait()
            fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)


def _state(value: Any) -> CopyState:
    if value is None:
        return CopyState("", {})
    digest, rows = value
    return CopyState(digest, {row[0]: PlacedEntry(*row) for row in rows})
