"""Finds the part of a path that is closed to this user, and the missing right.

The kernel reports only EACCES (path_resolution(7)). This is imported only after that error.
"""

from __future__ import annotations

import os
import stat

from . import system
from .account import user_words

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

MOST_LINKS = 40
"""Links that are followed for a path, as by the kernel (path_resolution(7))."""

VERBS = {
    (os.X_OK, True): "enter",
    (os.R_OK, True): "list",
    (os.W_OK, True): "write to",
    (os.X_OK, False): "execute",
    (os.R_OK, False): "read",
    (os.W_OK, False): "write",
}
"""The purpose of each permission, for a folder and for any other file."""

LETTERS = {os.X_OK: "x", os.R_OK: "r", os.W_OK: "w"}


def denied(path: str, *rights: int) -> str:
    """Return the part of a path that is forbidden, and the right that is missing, or "".

    Args:
        path: a file or folder; a missing one is not forbidden, except for writing.
        rights: the permissions that are needed: os.R_OK, os.W_OK, os.X_OK.
    """
    names, at = path.split("/")[::-1], "/" if path.startswith("/") else "."
    above, links = at, 0
    while names:
        name = names.pop()
        if name in {"", "."}:
            continue
        if not system.access(at, os.X_OK):
            if at == "." and (absolute := _absolute(at)) != at:
                return denied(absolute, os.X_OK)  # without the right, the contents are invisible
            return _words(at, os.X_OK) if system.isdir(at) else ""
        above, here = at, os.path.join(at, name)
        try:
            target = system.readlink(here)
        except OSError:  # not a link
            at = here
            continue
        links += 1
        if links > MOST_LINKS:
            return ""
        names += target.split("/")[::-1]
        at = "/" if target.startswith("/") else at
    if not system.exists(at):
        return _missing_right(above, [one for one in rights if one == os.W_OK])
    return _missing_right(at, rights)


def absence(path: str, words: str) -> str:
    """Return why nothing can be seen at a path, "" if something is there.

    Args:
        path: a file or folder.
        words: the message if there is no such file.
    """
    from .errors import reason

    try:
        system.stat(path)
    except (FileNotFoundError, NotADirectoryError, ValueError):  # the last of a NUL
        return words
    except OSError as error:
        return reason(error)
    return ""


def problem(kind: str, path: str, right: int) -> str:
    """Return why this user cannot use a path, "" if the user can.

    Args:
        kind: the kind of file that is expected there, such as "script".
        path: absolute, or relative to the current folder.
        right: the permission that is needed, os.R_OK or os.X_OK.
    """
    if absence(path, "missing") == "missing":
        return f"no such {kind}: {path}"
    why = denied(path, right)
    return f"{kind} {path}: {why}" if why else ""


def _missing_right(path: str, rights: Sequence[int]) -> str:
    if system.isdir(path):
        rights = (*rights, os.X_OK)
    missing = next((one for one in rights if not system.access(path, one)), 0)
    return _words(path, missing) if missing else ""


def _words(path: str, right: int) -> str:
    status = system.stat(path)
    folder = stat.S_ISDIR(status.st_mode)
    who = user_words(system.geteuid())
    return f"{who} may not {VERBS[right, folder]} {_absolute(path)}: {_why(path, right, status)}"


def _absolute(path: str) -> str:
    """Return a path without links as an absolute one, if there is still a current folder."""
    try:
        return os.path.normpath(os.path.join(system.getcwd(), path))
    except OSError:
        return path


def _why(path: str, right: int, status: os.stat_result) -> str:
    execute = right == os.X_OK and not stat.S_ISDIR(status.st_mode)
    flag = os.ST_NOEXEC if execute else os.ST_RDONLY if right == os.W_OK else 0
    if system.statvfs(path).f_flag & flag:
        how = "noexec; copy it elsewhere, or run its interpreter" if execute else "read-only"
        return f"{_mounted(path, flag)} is mounted {how}"
    owner = user_words(status.st_uid)
    text = f"no {LETTERS[right]} permission ({stat.filemode(status.st_mode)}, owned by {owner})"
    if system.geteuid() == 0 and not (execute and not status.st_mode & 0o111):
        text += "; root has no more rights there than others, as on NFS with root_squash"
    return text


def _mounted(path: str, flag: int) -> str:
    """Return the topmost folder above a file that is mounted with a flag."""
    at = os.path.realpath(path)
    while (above := os.path.dirname(at)) != at and system.statvfs(above).f_flag & flag:
        at = above
    return at
