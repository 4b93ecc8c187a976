"""The files in memory that a worker's hook (`features/stacks/hook`) has made, in /proc/PID/fd."""

from __future__ import annotations

import os
from contextlib import suppress

from ...common import system

_PREFIX, _SUFFIX = "/memfd:", " (deleted)"


def find(pid: int, name: str) -> tuple[int, str]:
    """Return the descriptor of a process's file, found by its prefix, and the rest of its name.

    Return (-1, "") without such a file: the process is no worker with a hook, or has closed it.
    """
    folder = f"/proc/{pid}/fd"
    with suppress(OSError):
        for number in system.listdir(folder):
            with suppress(OSError):  # it has been closed meanwhile
                link = system.readlink(f"{folder}/{number}")
                if link.startswith(_PREFIX + name) and link.endswith(_SUFFIX):
                    return int(number), link[len(_PREFIX + name) : -len(_SUFFIX)]
    return -1, ""


class MemoryFile:
    """A file in the memory of a worker, opened by this process.

    Raises:
        OSError: this process must not open it.
    """

    def __init__(self, pid: int, number: int) -> None:
        """Open the file that the process has under this number, and empty it."""
        self._fd = system.open_fd(f"/proc/{pid}/fd/{number}", os.O_RDWR | os.O_CLOEXEC)
        system.truncate(self._fd, 0)

    def read(self, most: int) -> bytes:
        """Return the content, up to `most` bytes."""
        return system.pread(self._fd, most, 0)

    @property
    def size(self) -> int:
        """Return the size of the content in bytes."""
        return system.fstat(self._fd).st_size

    def close(self) -> None:
        """Free the file's memory, and close it."""
        system.truncate(self._fd, 0)
        system.close(self._fd)
