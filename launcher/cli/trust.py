"""Which configuration files of projects may have this machine run programs: those that were read.

`dsrun --trust DIR` keeps the path of the folder and a hash of its file; a change ends the trust.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
from contextlib import suppress

from ..common import files
from ..common.errors import UsageError, in_words
from ..common.private_folder import private_folder, xdg_folder
from .config_files import contents, parsed
from .parser import PROJECT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

NAME = "trusted.json"
"""The file with all trusted projects: a JSON object, {folder: SHA-256 of its dsrun.toml}."""


def trust(folder: str, environ: Mapping[str, str]) -> str:
    """Trust the file of a folder as it is now, and return its path.

    Raises:
        UsageError: there is no such file, it is not valid or not safe, or the trust cannot be kept.
    """
    path = os.path.join(os.path.realpath(folder), PROJECT)
    if not os.path.exists(path):
        raise UsageError(f"--trust {folder}: no {PROJECT} there; name the folder that has one")
    data = contents(path)
    parsed(path, data)
    try:
        _write(environ, {**_read(environ), os.path.dirname(path): _hash(data)})
    except OSError as error:
        raise UsageError(f"--trust {folder}: {in_words(error)}") from None
    return path


def is_trusted(path: str, data: bytes, environ: Mapping[str, str]) -> bool:
    """Return whether the file of a project is trusted with these contents.

    Raises:
        UsageError: others can change what is kept, or it cannot be read.
    """
    try:
        known = _read(environ)
    except OSError as error:
        raise UsageError(f"{_path(environ)}: {in_words(error)}") from None
    return known.get(os.path.dirname(os.path.realpath(path))) == _hash(data)


def _hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _root(environ: Mapping[str, str]) -> str:
    return xdg_folder(environ, "XDG_STATE_HOME", ".local/state")


def _path(environ: Mapping[str, str]) -> str:
    return os.path.join(_root(environ), "dsrun", NAME)


def _read(environ: Mapping[str, str]) -> dict[str, object]:
    """Return what is kept; nothing if the file is missing or damaged.

    Raises:
        OSError: it cannot be read, or others can change it.
    """
    path = _path(environ)
    try:
        _check(os.lstat(os.path.dirname(path)))
        text = files.read(path, pipes=False, check=_check)
    except FileNotFoundError:
        return {}
    with suppress(ValueError):
        known = json.loads(text)
        return known if isinstance(known, dict) else {}
    return {}


def _check(status: os.stat_result) -> None:
    if status.st_uid != os.geteuid() or status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise PermissionError(1, "other users can change it; remove it and type --trust again")


def _write(environ: Mapping[str, str], known: Mapping[str, object]) -> None:
    folder = private_folder(_root(environ), "dsrun")
    path = os.path.join(folder, NAME)
    fresh = f"{path}.{os.getpid()}"
    fd = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
    with open(fd, "w", encoding="utf-8") as file:
        json.dump(known, file, indent=1)
    os.replace(fresh, path)
