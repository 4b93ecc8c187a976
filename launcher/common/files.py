"""Files that the user names, read whole: a regular one, or a pipe such as a shell's `<(...)` gives.

Whatever a path leads to, reading ends: a pipe that nobody writes to, a device without end and a
folder are errors.
"""

from __future__ import annotations

import errno
import os
import stat
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

LIMIT = 16 << 20
"""Bytes: no file that is read here is so large, something else may be."""

COME = 5.0
"""Seconds for somebody to write to a pipe."""

PATIENCE = 60.0
"""Seconds for a pipe to end that somebody writes to: as long as a program that names hosts has."""

_BLOCK = 1 << 16


def read(
    path: str,
    limit: int = LIMIT,
    *,
    pipes: bool = True,
    check: Callable[[os.stat_result], None] | None = None,
) -> bytes:
    """Return what is in a file.

    Args:
        path: the file.
        limit: bytes that it may have.
        pipes: take a pipe, too, and wait for its end.
        check: is shown the status of what was opened, and raises where that is not to be read.

    Raises:
        OSError: it cannot be read; `strerror` says why.
    """
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    try:
        status = os.fstat(fd)
        if stat.S_ISDIR(status.st_mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        if check is not None:
            check(status)
        if stat.S_ISREG(status.st_mode):
            return _all(fd, limit)
        if pipes and stat.S_ISFIFO(status.st_mode):
            return _piped(fd, limit)
    finally:
        os.close(fd)
    raise OSError(errno.EINVAL, f"is {kind(status.st_mode)}, not a file")


def kind(mode: int) -> str:
    """Return what a path leads to, in words, where that is no file and no folder."""
    kinds = {stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket", stat.S_IFDIR: "a folder"}
    return kinds.get(stat.S_IFMT(mode), "a device")


def _all(fd: int, limit: int) -> bytes:
    data = bytearray()
    while block := os.read(fd, _BLOCK):
        _add(data, block, limit)
    return bytes(data)


def _piped(fd: int, limit: int) -> bytes:
    """Read a pipe to its end.

    One that nobody has opened for writing reads as ended, but poll(2) waits for a writer to come.
    """
    import select

    ready = select.poll()
    ready.register(fd, select.POLLIN)
    began = time.monotonic()
    data, until = bytearray(), began + COME
    while True:
        came = ready.poll(max(0.0, until - time.monotonic()) * 1000)
        try:
            block = os.read(fd, _BLOCK)
        except BlockingIOError:
            until = began + PATIENCE
            if time.monotonic() > until:
                raise OSError(errno.EBUSY, f"a pipe without an end in {PATIENCE:g} s") from None
            continue
        if not came and not block:
            raise OSError(errno.EBUSY, f"a pipe that nobody wrote to in {COME:g} s")
        if not block:
            return bytes(data)
        _add(data, block, limit)


def _add(data: bytearray, block: bytes, limit: int) -> None:
    data += block
    if len(data) > limit:
        raise OSError(errno.EFBIG, f"larger than {limit} bytes; not read")
