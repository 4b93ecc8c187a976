"""Folders of this user alone, for caches and state: made if necessary, checked before each use."""

from __future__ import annotations

import errno
import os
import stat

from . import files, system

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

PRIVATE = 0o700
"""The permissions of such a folder."""


_ANYONE = "can be changed by others; run chmod o-w"

LINK_FAULT = "is a link, not a folder"
"""The problem with a link in place of a folder, wherever it leads."""


def cache_root(environ: Mapping[str, str]) -> str:
    """Return the user's folder for caches; in a container, the host's folder, if it is mounted."""
    if host := environ.get("DSRUN_CACHE", ""):
        return host
    return xdg_folder(environ, "XDG_CACHE_HOME", ".cache")


def state_root(environ: Mapping[str, str]) -> str:
    """Return the user's folder for records of jobs."""
    return xdg_folder(environ, "XDG_STATE_HOME", ".local/state")


def xdg_folder(environ: Mapping[str, str], variable: str, default: str) -> str:
    """Return a folder of the user (XDG Base Directory Specification 0.8).

    Args:
        environ: the environment.
        variable: names the folder; one that is not absolute is ignored, as specified.
        default: the folder otherwise, relative to the home folder.

    Raises:
        FileNotFoundError: the variable names none, and this user has no home folder.
    """
    given = environ.get(variable, "")
    if os.path.isabs(given):
        return given
    home = files.home()
    if not home:
        from .account import homeless

        raise FileNotFoundError(errno.ENOENT, homeless())
    return os.path.join(home, default)


def private_folder(root: str, *names: str) -> str:
    """Return the folder of these names below `root`; make it and its parents.

    Raises:
        OSError: a folder cannot be made, is no folder, belongs to another user, or is open to
            others; or others could replace the contents of `root`. `strerror` has the reason, and
            `filename` the path.
    """
    _check_place(root)
    system.makedirs(root, PRIVATE, exist_ok=True)
    _check_root(root)
    return _made(root, names)


def state_folder(environ: Mapping[str, str], *names: str) -> str:
    """Return the folder of these names for state; the folders above it may belong to anybody.

    Raises:
        OSError: a folder cannot be made, is not a folder, belongs to another user, or is open to
            others; or everybody could replace the contents of a folder above; as for
            `private_folder`.
    """
    root = state_root(environ)
    system.makedirs(root, PRIVATE, exist_ok=True)
    path = os.path.realpath(root)
    while True:
        _refuse(path, {_ANYONE: _by_anyone(system.stat(path))})
        if (above := os.path.dirname(path)) == path:
            return _made(root, names)
        path = above


def _made(root: str, names: Sequence[str]) -> str:
    path = root
    for name in names:
        path = os.path.join(path, name)
        try:
            system.mkdir(path, PRIVATE)
        except FileExistsError:
            _check(path)
    return path


def _check_place(path: str) -> None:
    """Keep root from making folders in the home of another user, which HOME names after `sudo -E`.

    Otherwise, that user could no longer make anything in `~/.cache` or `~/.local`.
    """
    if system.getuid() == 0:
        while not system.exists(path):
            path = os.path.dirname(path)
        _refuse(path, {"belongs to another user": system.stat(path).st_uid != 0})


def _check_root(path: str) -> None:
    status = system.stat(path)
    stranger = status.st_uid not in {0, system.getuid()}
    _refuse(path, {"belongs to another user": stranger, _ANYONE: _by_anyone(status)})


def _by_anyone(status: os.stat_result) -> bool:
    """Return whether everybody could replace the contents of a folder."""
    return status.st_mode & (stat.S_ISVTX | stat.S_IWOTH) == stat.S_IWOTH


def _check(path: str) -> None:
    status = system.lstat(path)
    faults = {
        LINK_FAULT: stat.S_ISLNK(status.st_mode),
        "is not a folder": not stat.S_ISDIR(status.st_mode),
        "belongs to another user": status.st_uid != system.getuid(),
        "is open to other users; run chmod 700": bool(status.st_mode & 0o077),
    }
    _refuse(path, faults)


def _refuse(path: str, faults: Mapping[str, bool]) -> None:
    for fault, found in faults.items():
        if found:
            raise PermissionError(1, fault, path)
