"""Per-rank log files on a node: private, complete, and no reason to stop when the disk fills."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

NAMES = {1: "out", 2: "err"}


class RankLog:
    """The files `DIR/JOB/rank-0007.out` and `.err` of one rank, byte for byte what it wrote."""

    def __init__(
        self, folder: str, rank: int, warn: Callable[[str], None], *, again: bool = False
    ) -> None:
        """Create both files; they must not exist, unless this is `again`: then go on in them.

        Raises:
            OSError: the folder or a file cannot be created.
        """
        self._warn = warn
        self.path = os.path.join(folder, f"rank-{rank:04d}")
        os.makedirs(folder, mode=0o700, exist_ok=True)
        new = os.O_APPEND if again else os.O_EXCL
        flags = os.O_WRONLY | os.O_CREAT | new | os.O_NOFOLLOW | os.O_CLOEXEC
        self._fds = {n: os.open(f"{self.path}.{NAMES[n]}", flags, 0o600) for n in NAMES}

    def write(self, stream: int, data: bytes) -> None:
        """Append; on the first failure say so once and go on without that file."""
        fd = self._fds.get(stream)
        while fd is not None and data:
            try:
                data = data[os.write(fd, data) :]
            except OSError as error:
                os.close(self._fds.pop(stream))
                self._warn(f"{self.path}.{NAMES[stream]}: {error.strerror}; log ends here")
                return

    def close(self) -> None:
        """Close both files."""
        while self._fds:
            os.close(self._fds.popitem()[1])
