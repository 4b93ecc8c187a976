"""Trust in the configuration files of projects: those that their user has read.

`dsrun --trust DIR` records the folder's path, and a hash of the settings that need trust in its
file. A change of these settings ends the trust; a comment or a time limit does not.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat

from ..common import files
from ..common.errors import UsageError, in_words
from ..common.private_folder import state_folder, xdg_folder
from ..common.text import read_json
from .config_files import guarded, parsed
from .config_source import source
from .parser import PROJECT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from .config_files import File
    from .config_source import ConfigSource

NAME = "trusted.json"
"""The file with all trusted projects: a JSON object, {folder: SHA-256 of the trusted settings}."""

VARIABLE = "DSRUN_TRUST"
"""A list of folders, separated by colons, whose dsrun.toml is trusted with any content."""


def trust(folder: str, environ: Mapping[str, str]) -> str:
    """Trust the present content of a folder's file, or of this file; return its path.

    Raises:
        UsageError: there is no such file, it is invalid or not safe, or the trust cannot be kept.
    """
    if os.path.basename(folder) == PROJECT and os.path.isfile(folder):
        folder = os.path.dirname(folder) or "."
    path = os.path.join(os.path.realpath(folder), PROJECT)
    if not os.path.exists(path):
        from ..common.access import absence

        why = absence(path, f"no {PROJECT} there; name the folder that has one")
        raise UsageError(f"--trust {folder}: {why}")
    digest = _digest(path, parsed(path, source(path).data))
    try:
        _write(environ, {**_read(environ), os.path.dirname(path): digest})
    except FileNotFoundError as error:  # there is no home folder
        what = f"set HOME, or {VARIABLE}={os.path.dirname(path)}"
        raise UsageError(f"--trust {folder}: {in_words(error)}; {what}") from None
    except OSError as error:
        raise UsageError(f"--trust {folder}: {in_words(error)}") from None
    return path


def distrust(project: ConfigSource, file: File, environ: Mapping[str, str]) -> str:
    """Return why the file of a project is not trusted, "" if it is.

    Raises:
        UsageError: others can change the record, or a variable is invalid.
    """
    try:
        known = _read(environ)
    except OSError as error:
        raise UsageError(f"{_path(environ)}: {in_words(error)}") from None
    folder = os.path.dirname(project.path)
    if known.get(folder) == _digest(project.path, file):
        return ""
    if folder not in _named(environ):
        return "this file is not trusted"
    # A record has the values; the variable would trust anything that others write.
    return f"{VARIABLE} is ignored where other members of a group can write" * project.shared


def _named(environ: Mapping[str, str]) -> set[str]:
    names = [one for one in environ.get(VARIABLE, "").split(":") if one]
    for one in names:
        if not os.path.isabs(one):
            raise UsageError(
                f"{VARIABLE}: expected absolute paths of folders, separated by colons, not {one!r}"
            )
    return {os.path.realpath(one) for one in names}


def _digest(path: str, file: File) -> str:
    """Return a hash of a file's real path and of all its settings that need trust."""
    settings = [(profile, one.name, one.value) for profile, one in guarded(file)]
    settings.sort(key=lambda one: one[:2])  # of two names of an option the last one counts
    text = json.dumps([os.path.realpath(path), settings])
    return hashlib.sha256(text.encode()).hexdigest()


def _root(environ: Mapping[str, str]) -> str:
    return xdg_folder(environ, "XDG_STATE_HOME", ".local/state")


def _path(environ: Mapping[str, str]) -> str:
    return os.path.join(_root(environ), "dsrun", NAME)


def _read(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the trusted files with their digests; {} if the file is missing or damaged.

    Raises:
        PermissionError: the file may not be read, or others can change it.
    """
    try:
        path = _path(environ)
        _check(os.lstat(os.path.dirname(path)))
        known = read_json(files.read(path, pipes=False, check=_check))
    except PermissionError:
        raise
    except (OSError, ValueError):
        return {}
    entries = known.items() if isinstance(known, dict) else ()
    return {folder: digest for folder, digest in entries if isinstance(digest, str)}


def _check(status: os.stat_result) -> None:
    if status.st_uid != os.geteuid() or status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise PermissionError(1, "other users can change it; remove it and run --trust again")


def _write(environ: Mapping[str, str], known: Mapping[str, str]) -> None:
    folder = state_folder(environ, "dsrun")
    path = os.path.join(folder, NAME)
    fresh = f"{path}.{os.getpid()}"
    fd = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
    try:
        with open(fd, "w", encoding="utf-8") as file:
            json.dump(known, file, indent=1)
        os.replace(fresh, path)
    except OSError as error:
        os.unlink(fresh)
        error.filename = path  # the user does not know the other one
        raise
