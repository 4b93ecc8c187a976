"""Files that the user names to be written: whether they can be, and whose they are."""

from __future__ import annotations

import os
import stat

from . import files
from .errors import UsageError

STREAMS = {"/dev/stdout": 1, "/dev/stderr": 2}
"""Names of streams that are open already: opened anew, a file there would be cut off."""


def check(option: str, path: str) -> None:
    """See that a file can be written to, as far as that can be known beforehand.

    Raises:
        UsageError: it cannot.
    """
    if path in STREAMS:
        return
    problem = _problem(path)
    if problem:
        raise UsageError(f"{option} {path}: {problem}")


def _problem(path: str) -> str:
    """Say what is wrong with a path, "" if nothing is."""
    folder = folder_of(path)
    if not path or os.path.isdir(path):
        return "is a folder; name a file"
    if not os.path.isdir(folder):
        return f"there is no folder {folder}; make it, or name a file elsewhere"
    try:
        if is_anothers(os.lstat(path), folder):
            return "is another user's; name another file"
        mode = os.stat(path).st_mode
    except OSError:
        target = os.path.dirname(os.path.realpath(path))
        return "" if os.access(target, os.W_OK) else f"{target} cannot be written to"
    if stat.S_ISSOCK(mode) or stat.S_ISBLK(mode):
        return f"is {files.kind(mode)}; name a file"
    return "" if os.access(path, os.W_OK) else "cannot be written to"


def folder_of(path: str) -> str:
    """Return the folder of a file, as an absolute path."""
    return os.path.dirname(os.path.abspath(path))


def is_anothers(status: os.stat_result, folder: str) -> bool:
    """Return whether a stranger has laid a link, or a file where everybody may (root aside).

    So says proc_sys_fs(5) of protected_symlinks and protected_regular, which not all hosts set.
    """
    shared = bool(os.stat(folder).st_mode & stat.S_ISVTX)
    strange = status.st_uid not in {0, os.getuid()}
    return strange and (shared or stat.S_ISLNK(status.st_mode))
