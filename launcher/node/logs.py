"""Per-rank log files on a node: private, complete, and no reason to stop when the disk fills."""

from __future__ import annotations

import errno
import os
import stat

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

NAMES = {1: "out", 2: "err"}

_FLAGS = os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
"""How a log file is opened (open(2)): never a link, nor a pipe that waits for its reader."""


class RankLog:
    """The log files of one rank's streams, byte for byte what it wrote."""

    def __init__(
        self,
        paths: Mapping[int, str],
        create: Callable[[str], int],
        warn: Callable[[str], None],
    ) -> None:
        """Create a file for each stream; `create` returns its descriptor.

        Raises:
            OSError: a folder or a file cannot be created.
        """
        self._warn = warn
        self._paths = paths
        self._fds: dict[int, int] = {}
        try:
            for stream, path in paths.items():
                os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
                self._fds[stream] = create(path)
        except OSError:
            self.close()
            raise

    def write(self, stream: int, data: bytes) -> None:
        """Append; on the first failure say so once and go on without that file."""
        fd = self._fds.get(stream)
        while fd is not None and data:
            try:
                data = data[os.write(fd, data) :]
            except OSError as error:
                os.close(self._fds.pop(stream))
                self._warn(f"{self._paths[stream]}: {error.strerror}; log ends here")
                return

    def close(self) -> None:
        """Close the files."""
        while self._fds:
            os.close(self._fds.popitem()[1])


def own_log(folder: str, rank: int, warn: Callable[[str], None], *, again: bool) -> RankLog:
    """Open `FOLDER/rank-0007.out` and `.err`; they must be new, unless this is `again`.

    Raises:
        OSError: the folder or a file cannot be created.
    """
    path = os.path.join(folder, f"rank-{rank:04d}")
    paths = {stream: f"{path}.{name}" for stream, name in NAMES.items()}
    return RankLog(paths, _continued if again else _created, warn)


def named_log(paths: Mapping[int, str], warn: Callable[[str], None]) -> RankLog:
    """Open the files that a LogsSpecs has named, anew in every round as torch does.

    Raises:
        OSError: a folder or a file cannot be created.
    """
    wanted = {stream: path for stream, path in paths.items() if path != os.devnull}
    return RankLog(wanted, _renewed, warn)


def _created(path: str) -> int:
    return os.open(path, _FLAGS | os.O_CREAT | os.O_EXCL, 0o600)


def _continued(path: str) -> int:
    return os.open(path, _FLAGS | os.O_CREAT | os.O_APPEND, 0o600)


def _renewed(path: str) -> int:
    """Return a new file, or this user's file of this name from an earlier round, emptied."""
    try:
        return _created(path)
    except FileExistsError:
        fd = os.open(path, _FLAGS)
    status = os.fstat(fd)
    # A second name of a file may be one that a stranger has given it (link(2)).
    if stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid() and status.st_nlink == 1:
        os.truncate(fd, 0)
        return fd
    os.close(fd)
    raise OSError(errno.EEXIST, "is there, and is no log file of this user's", path)
