"""The code of a job on this node: a digest of its script, and of the Python files around it."""

from __future__ import annotations

import os
import time
from importlib import import_module
from stat import S_ISREG

from ...control.facts import MOST_FILES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

LARGEST = 8 * 1024 * 1024
"""Bytes of a script; a larger one is a program that takes long to read."""

MOST_ENTRIES = 20_000
"""Files and folders that are looked at."""

SECONDS = 0.2
"""How long to look: a file system may take a millisecond for each file."""

SHA = ("_sha2", "_sha256", "hashlib")
"""Modules with SHA-256, in Python from 3.12 on and before; `hashlib` loads OpenSSL, which takes ten
times as long."""

SKIPPED = frozenset({"__pycache__", "node_modules", "site-packages", "dist-packages"})
"""Folders that have no code of the job; neither have those whose names begin with a dot."""


def script_digest(path: str) -> str:
    """Return the SHA-256 of a script, "" if there is none that can be read."""
    try:
        with open(path, "rb") as file:
            if os.fstat(file.fileno()).st_size > LARGEST:
                return ""
            return _sha256(file.read())
    except OSError:
        return ""


def python_files(folder: str) -> dict[str, int] | None:
    """Return the sizes of all `*.py` below a folder by their names in it.

    None is returned if there are more than `MOST_FILES`, or if it takes too long.
    """
    found: dict[str, int] = {}
    folders, seen, deadline = [""], 0, time.monotonic() + SECONDS
    while folders:
        below = folders.pop()
        try:
            listed = os.scandir(os.path.join(folder, below))
        except OSError:
            continue
        with listed:
            for entry in listed:
                seen += 1
                _sort(entry, below, folders, found)
                if len(found) > MOST_FILES or seen > MOST_ENTRIES:
                    return None
        if time.monotonic() > deadline:
            return None
    return found


def _sort(entry: os.DirEntry[str], below: str, folders: list[str], found: dict[str, int]) -> None:
    """Add an entry to the files found, or to the folders to look into, without following links."""
    name = entry.name
    try:
        if name.endswith(".py"):
            status = entry.stat()
            if S_ISREG(status.st_mode):
                found[f"{below}{name}"] = status.st_size
        elif entry.is_dir(follow_symlinks=False) and name[0] != "." and name not in SKIPPED:
            folders.append(f"{below}{name}/")
    except OSError:  # it has gone meanwhile
        pass


def files_digest(files: Mapping[str, int] | None) -> str:
    """Return what is equal for equal names and sizes, "" for None."""
    if files is None:
        return ""
    rows = (f"{name}\0{size}\n" for name, size in sorted(files.items()))
    return _sha256("".join(rows).encode("utf-8", "surrogateescape"))


def _sha256(data: bytes) -> str:
    """Return a digest in hex."""
    for name in SHA:
        try:
            return str(import_module(name).sha256(data).hexdigest())
        except ImportError:
            continue
    raise AssertionError
