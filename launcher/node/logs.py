"""Per-rank log files on a node: private, complete, and no reason to stop when the disk fills."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

NAMES = {1: "out", 2: "err"}


class RankLog:
    """The log files of one rank's streams, byte for byte what it wrote."""

    def __init__(self, paths: Mapping[int, str], flags: int, warn: Callable[[str], None]) -> None:
        """Create a file for each stream; `flags` say what becomes of one that is there (open(2)).

        Raises:
            OSError: a folder or a file cannot be created.
        """
        self._warn = warn
        self._paths = paths
        for path in paths.values():
            os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        flags |= os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC
        self._fds = {stream: os.open(path, flags, 0o600) for stream, path in paths.items()}

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
    return RankLog(paths, os.O_NOFOLLOW | (os.O_APPEND if again else os.O_EXCL), warn)


def named_log(paths: Mapping[int, str], warn: Callable[[str], None]) -> RankLog:
    """Open the files that a LogsSpecs has named, anew in every round as torch does.

    Raises:
        OSError: a folder or a file cannot be created.
    """
    return RankLog(paths, os.O_TRUNC, warn)
