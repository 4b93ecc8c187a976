"""What `open` returns: Python's own buffers and text layers, above simulated descriptors."""

from __future__ import annotations

import errno
import io
import os
from typing import IO, TYPE_CHECKING, Any, cast

from .process import error

if TYPE_CHECKING:
    from collections.abc import Callable

    from .kernel import Kernel

_MODES = {"r": os.O_RDONLY, "w": os.O_WRONLY | os.O_CREAT | os.O_TRUNC}
_MODES |= {"a": os.O_WRONLY | os.O_CREAT | os.O_APPEND, "x": os.O_WRONLY | os.O_CREAT | os.O_EXCL}


class _Raw(io.RawIOBase):
    """A descriptor as a file; nothing is closed when the object is deleted."""

    def __init__(self, kernel: Kernel, fd: int, mode: str, closefd: bool) -> None:
        super().__init__()
        self._kernel = kernel
        self._fd = fd
        self.mode = mode
        self.name: object = fd
        self._closefd = closefd
        self._number = kernel.new_object()

    def __del__(self) -> None:
        """Do nothing."""

    @property
    def closed(self) -> bool:
        """Whether it is closed in this process."""
        task = self._kernel.task
        return task is None or task.dead or self._number not in task.process.objects

    def close(self) -> None:
        """Close the descriptor."""
        if not self.closed:
            self._kernel.process.objects.discard(self._number)
            if self._closefd:
                self._kernel.enter().remove(self._fd)

    def fileno(self) -> int:
        """Return the descriptor."""
        return self._fd

    def readable(self) -> bool:
        """Whether it can be read."""
        return "r" in self.mode or "+" in self.mode

    def writable(self) -> bool:
        """Whether it can be written."""
        return self.mode[0] in "wax" or "+" in self.mode

    def seekable(self) -> bool:
        """Whether it has an offset."""
        return False

    def isatty(self) -> bool:
        """Whether it is a terminal."""
        return False

    def readinto(self, buffer: Any) -> int | None:
        """Read into a buffer; None if there is nothing yet."""
        try:
            data = self._kernel.system_read(self._fd, len(buffer))
        except BlockingIOError:
            return None
        buffer[: len(data)] = data
        return len(data)

    def write(self, data: Any) -> int | None:
        """Write; None if there is no room."""
        try:
            return self._kernel.system_write(self._fd, data)
        except BlockingIOError:
            return None


class _Reader(io.BufferedReader):
    def __del__(self) -> None:
        pass


class _Writer(io.BufferedWriter):
    def __del__(self) -> None:
        pass


class _Text(io.TextIOWrapper):
    def __del__(self) -> None:
        pass


def open_file(
    kernel: Kernel,
    file: Any,
    mode: str = "r",
    buffering: int = -1,
    encoding: str | None = None,
    errors: str | None = None,
    newline: str | None = None,
    closefd: bool = True,
    opener: Callable[[str, int], int] | None = None,
) -> IO[Any]:
    """Open a file (builtins.open)."""
    binary, plain = "b" in mode, mode.replace("b", "").replace("t", "")
    flags = _MODES[plain[0]] | os.O_CLOEXEC
    if "+" in plain:
        flags = flags & ~os.O_ACCMODE | os.O_RDWR
    if isinstance(file, int):
        kernel.enter().get(file)
        fd = file
    elif opener is not None:
        fd = opener(file, flags)
    else:
        fd = kernel.system_open(file, flags, 0o666)
        if kernel.process.get(fd).is_folder:
            kernel.process.remove(fd)
            raise error(errno.EISDIR, file)
    raw = _Raw(kernel, fd, plain, closefd)
    raw.name = file
    if buffering == 0:
        return cast("IO[Any]", raw)
    layer: Any = _Reader(raw) if raw.readable() else _Writer(raw)
    if binary:
        return cast("IO[Any]", layer)
    line = buffering == 1
    return _Text(layer, encoding or "utf-8", errors, newline, line_buffering=line)
