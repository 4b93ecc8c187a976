"""The file of --report_file, written when the job has ended."""

from __future__ import annotations

import errno
import os
import stat
from functools import partial

from ...common import output_file, system
from ...common.errors import reason
from ...common.stderr import tell

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

PATIENCE = 5.0
"""Seconds for the reader of a pipe to read the report."""


def write(
    path: str,
    text: str,
    failed: Callable[[str], object] | None = None,
    name: str = "--report_file",
) -> bool:
    """Write a report; return whether that succeeded.

    Args:
        path: the path of the file.
        text: the content.
        failed: called with the reason for a failure; None to print the reason.
        name: the option that named the file.
    """
    try:
        if path in output_file.STREAMS:
            _put(output_file.STREAMS[path], text.encode())
        else:
            with system.open_file(path, "wb", buffering=0, opener=_opened) as file:
                _put(file.fileno(), text.encode())
    except OSError as error:
        unread = error.errno == errno.ENXIO
        why = "the pipe has no reader" if unread else reason(error)
        (failed or partial(_tell, f"{name} {path}"))(why)
        return False
    return True


def _tell(where: str, why: str) -> None:
    tell(f"{where}: {why}")


def _opened(path: str, _flags: int) -> int:
    """Open a path for writing, truncated, without waiting for the reader of a pipe."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
    link = system.islink(path)
    if link and output_file.is_anothers(system.lstat(path), output_file.folder_of(path)):
        raise PermissionError(errno.EPERM, "belongs to another user")
    fd = system.open_fd(path, flags if link else flags | os.O_NOFOLLOW, 0o666)
    try:
        status = system.fstat(fd)
        if not link and output_file.is_anothers(status, output_file.folder_of(path)):
            raise PermissionError(errno.EPERM, "belongs to another user")
        if stat.S_ISREG(status.st_mode):
            system.truncate(fd, 0)
    except OSError:
        system.close(fd)
        raise
    return fd


def _put(fd: int, data: bytes) -> None:
    """Write all data, waiting at most `PATIENCE` each time for the reader of a pipe."""
    import select

    room = system.poll()
    room.register(fd, select.POLLOUT)
    until = system.monotonic() + PATIENCE
    rest = memoryview(data)
    while rest:
        if not room.poll(max(0.0, until - system.monotonic()) * 1000):
            raise OSError(errno.EBUSY, f"its reader has read nothing for {PATIENCE:g} s")
        rest = rest[system.write(fd, rest[: select.PIPE_BUF]) :]
