"""The file of --report_file: looked at before the job starts, written when it has ended."""

from __future__ import annotations

import errno
import json
import os
import stat
import sys
import time

from ...common import files
from ...common.errors import UsageError
from ...common.text import plain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

PATIENCE = 5.0
"""Seconds for the reader of a pipe to take it."""

STREAMS = {"/dev/stdout": 1, "/dev/stderr": 2}
"""Names of streams that are open already: opened anew, a file there would be cut off."""


def check(path: str) -> None:
    """See that a report can be written to a path, as far as that can be known beforehand.

    Raises:
        UsageError: it cannot.
    """
    if path in STREAMS:
        return
    problem = _problem(path)
    if problem:
        raise UsageError(f"--report_file {path}: {problem}")


def write(path: str, report: Mapping[str, object]) -> None:
    """Write a report; what goes wrong is told, for the job's own exit code counts for more."""
    text = json.dumps(report, indent=2) + "\n"
    try:
        if path in STREAMS:
            _put(STREAMS[path], text.encode())
        else:
            with open(path, "wb", buffering=0, opener=_opened) as file:
                _put(file.fileno(), text.encode())
    except OSError as error:
        nobody = error.errno == errno.ENXIO
        reason = "nobody reads it" if nobody else (error.strerror or str(error)).lower()
        sys.stderr.write(f"dsrun: --report_file {plain(path)}: {reason}\n")


def _problem(path: str) -> str:
    """Say what is wrong with a path, "" if nothing is."""
    folder = _folder(path)
    if not path or os.path.isdir(path):
        return "is a folder; name a file"
    if not os.path.isdir(folder):
        return f"there is no folder {folder}; make it, or name a file elsewhere"
    try:
        if _is_anothers(os.lstat(path), folder):
            return "is another user's; name another file"
        mode = os.stat(path).st_mode
    except OSError:
        target = os.path.dirname(os.path.realpath(path))
        return "" if os.access(target, os.W_OK) else f"{target} cannot be written to"
    if stat.S_ISSOCK(mode) or stat.S_ISBLK(mode):
        return f"is {files.kind(mode)}; name a file"
    return "" if os.access(path, os.W_OK) else "cannot be written to"


def _folder(path: str) -> str:
    return os.path.dirname(os.path.abspath(path))


def _is_anothers(status: os.stat_result, folder: str) -> bool:
    """Tell whether a stranger has laid a link, or a file where everybody may (root aside).

    So says proc_sys_fs(5) of protected_symlinks and protected_regular, which not all hosts set.
    """
    shared = bool(os.stat(folder).st_mode & stat.S_ISVTX)
    strange = status.st_uid not in {0, os.getuid()}
    return strange and (shared or stat.S_ISLNK(status.st_mode))


def _opened(path: str, _flags: int) -> int:
    """Open a path to write there from the beginning, without waiting for a reader."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
    link = os.path.islink(path)
    if link and _is_anothers(os.lstat(path), _folder(path)):
        raise PermissionError(errno.EPERM, "is another user's")
    fd = os.open(path, flags if link else flags | os.O_NOFOLLOW, 0o666)
    try:
        status = os.fstat(fd)
        if not link and _is_anothers(status, _folder(path)):
            raise PermissionError(errno.EPERM, "is another user's")
        if stat.S_ISREG(status.st_mode):
            os.truncate(fd, 0)
    except OSError:
        os.close(fd)
        raise
    return fd


def _put(fd: int, data: bytes) -> None:
    """Write all, as far as a pipe takes it: what poll(2) has room for is written at once."""
    import select

    room = select.poll()
    room.register(fd, select.POLLOUT)
    until = time.monotonic() + PATIENCE
    rest = memoryview(data)
    while rest:
        if not room.poll(max(0.0, until - time.monotonic()) * 1000):
            raise OSError(errno.EBUSY, f"takes nothing for {PATIENCE:g} s")
        rest = rest[os.write(fd, rest[: select.PIPE_BUF]) :]
