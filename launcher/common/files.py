"""Read files that the user names (regular files, or pipes such as a shell's `<(...)`) and dsrun's.

Reading always ends: a pipe without a writer, a device and a folder are errors. Files of dsrun may
have been replaced, and are opened only if they are regular.
"""

from __future__ import annotations

import errno
import os
import stat

from . import system
from .errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

LIMIT = 16 << 20
"""Largest size in bytes of any file that dsrun reads."""

WRITER_TIMEOUT = 5.0
"""Seconds for a pipe to get its first data."""

PIPE_TIMEOUT = 60.0
"""Seconds for a pipe to be closed by its writer, as for a host discovery script."""

_BLOCK = 1 << 16


def read(
    path: str,
    limit: int = LIMIT,
    *,
    pipes: bool = True,
    check: Callable[[os.stat_result], None] | None = None,
) -> bytes:
    """Return the contents of a file.

    Args:
        path: the file.
        limit: the largest size to accept, in bytes.
        pipes: whether to accept a pipe, and read it to its end.
        check: called with the status of the open file; raises if it must not be read.

    Raises:
        OSError: the file cannot be read; `strerror` says why.
    """
    fd = system.open_fd(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    try:
        status = system.fstat(fd)
        if stat.S_ISDIR(status.st_mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        if check is not None:
            check(status)
        if stat.S_ISREG(status.st_mode):
            return _all(fd, limit)
        if pipes and stat.S_ISFIFO(status.st_mode):
            return _piped(fd, limit)
    finally:
        system.close(fd)
    raise OSError(errno.EINVAL, f"is {kind(status.st_mode)}, not a file")


def text(data: bytes, name: str) -> str:
    """Return the contents of a text file, without the byte order mark that Windows may add.

    Raises:
        UsageError: the contents are not UTF-8, or have a zero byte; the message names the line.
    """
    try:
        decoded, bad = data.decode("utf-8-sig"), data.find(b"\0")
    except UnicodeDecodeError as fault:
        decoded, bad = "", fault.start
    if bad >= 0:
        line = data.count(b"\n", 0, bad) + 1
        raise UsageError(f"{name}:{line}: not plain text; save the file as UTF-8")
    return decoded


def home() -> str:
    """Return this user's home folder: HOME, or the folder in the user database, or ""."""
    named = os.environ.get("HOME", "")
    if os.path.isabs(named):
        return named
    import pwd

    try:
        found = pwd.getpwuid(system.getuid()).pw_dir
    except KeyError:
        return ""
    return found if os.path.isabs(found) else ""


def login_folder() -> str:
    """Return the folder of a fresh login: the home folder, or `/` if that is missing."""
    folder = home()
    return folder if folder and system.access(folder, os.X_OK) else "/"


def open_regular(path: str | bytes) -> int:
    """Return a descriptor of a regular file, for reading; links are not followed.

    Opening does not block, whatever has taken the file's place since the last check.

    Raises:
        OSError: the file cannot be opened, or is not a regular file.
    """
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NOCTTY
    fd = system.open_fd(path, flags)
    mode = system.fstat(fd).st_mode
    if stat.S_ISREG(mode):
        return fd
    system.close(fd)
    raise OSError(errno.EINVAL, f"is {kind(mode)}, not a file", path)


def open_own(path: str, limit: int) -> int:
    """Return a descriptor for reading a regular file of this user; open nothing else.

    Raises:
        OSError: the file is of another kind, larger than `limit` bytes, or cannot be opened.
    """
    check_own(system.lstat(path), path, limit)
    fd = open_regular(path)
    try:
        check_own(system.fstat(fd), path, limit)
    except OSError:
        system.close(fd)
        raise
    return fd


def check_own(status: os.stat_result, path: str, limit: int) -> None:
    """Check the status of a file that dsrun has written; raise as `open_own` does."""
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, f"is {kind(status.st_mode)}, not a file", path)
    if status.st_uid != system.geteuid():
        raise PermissionError(errno.EPERM, "belongs to another user", path)
    if status.st_size > limit:
        raise OSError(errno.EFBIG, f"larger than {limit} bytes; not read", path)


def read_own(path: str, limit: int = LIMIT) -> bytes:
    """Return the contents of a regular file of this user; raise as `open_own` does."""
    fd = open_own(path, limit)
    try:
        return _all(fd, limit)
    finally:
        system.close(fd)


def kind(mode: int) -> str:
    """Return the kind of a file that is not a regular file, such as "a pipe"."""
    return _KINDS.get(stat.S_IFMT(mode), "a device")


_KINDS = {
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFDIR: "a folder",
    stat.S_IFLNK: "a link",
}


def _all(fd: int, limit: int) -> bytes:
    data = bytearray()
    while block := system.read(fd, _BLOCK):
        _add(data, block, limit)
    return bytes(data)


def _piped(fd: int, limit: int) -> bytes:
    """Read a pipe to its end.

    Before a writer has opened a pipe, read(2) reports its end; poll(2) waits for a writer.
    """
    import select

    ready = system.poll()
    ready.register(fd, select.POLLIN)
    began = system.monotonic()
    data, until = bytearray(), began + WRITER_TIMEOUT
    while True:
        events = ready.poll(max(0.0, until - system.monotonic()) * 1000)
        try:
            block = system.read(fd, _BLOCK)
        except BlockingIOError:
            until = began + PIPE_TIMEOUT
            if system.monotonic() > until:
                late = f"its writer did not close the pipe within {PIPE_TIMEOUT:g} s"
                raise OSError(errno.EBUSY, late) from None
            continue
        if not events and not block:
            raise OSError(errno.EBUSY, f"nothing was written to the pipe for {WRITER_TIMEOUT:g} s")
        if not block:
            return bytes(data)
        _add(data, block, limit)


def _add(data: bytearray, block: bytes, limit: int) -> None:
    data += block
    if len(data) > limit:
        raise OSError(errno.EFBIG, f"larger than {limit} bytes; not read")
