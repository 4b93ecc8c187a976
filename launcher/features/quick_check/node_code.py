"""The code of a job on this node: its script, and a digest of the Python files around it."""

from __future__ import annotations

import os
import re
import sys
from stat import S_ISREG

from ...common import system
from ...control.facts import MOST_FILES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

LARGEST = 8 * 1024 * 1024
"""Maximum bytes of a script; larger ones would take long to read."""

MOST_OTHERS = 8000
"""Maximum number of other files and folders that are counted."""

DATA = 1000
"""Number of other files above which a folder has data, not code, and is left out."""

SECONDS = 0.2
"""Seconds for the search: a file system may take a millisecond for each file."""

_IMPORTS_TORCH = rb"^[ \t]*(from[ \t]+torch[ \t.]|import[ \t]([^\n#]*[ \t,])?torch(?!\w))"

_IMPORTS = rb"^[ \t]*(from|import)[ \t]+([A-Za-z_][^\n#;]{0,300})"

MOST_MODULES = 64
"""Modules that are looked for."""

SHA = ("_sha2", "_sha256", "hashlib")
"""Modules with SHA-256, in Python from 3.12 on and before; `hashlib` loads OpenSSL, which takes ten
times as long."""

SKIPPED = frozenset({"__pycache__", "node_modules", "site-packages", "dist-packages"})
"""Folders without code of the job; folders with a leading dot are skipped, too."""


def content(path: str) -> bytes | None:
    """Return the content of a script; None if it is missing, unreadable or large."""
    try:
        with system.open_file(path, "rb") as file:
            return None if system.fstat(file.fileno()).st_size > LARGEST else file.read()
    except OSError:
        return None


def digest(data: bytes | None) -> str:
    """Return the SHA-256 of a script in hex, "" for None."""
    return "" if data is None else _sha256(data)


def imports_torch(data: bytes | None) -> bool:
    """Return whether a Python script has a line that imports torch itself."""
    return data is not None and re.search(_IMPORTS_TORCH, data, re.MULTILINE) is not None


def imported(data: bytes | None) -> list[str]:
    """Return the top-level modules that a Python script imports, except Python's own."""
    found: dict[str, None] = {}
    for line in re.finditer(_IMPORTS, data or b"", re.MULTILINE):
        listed = line[2].split(b",") if line[1] == b"import" else [line[2]]
        names = (re.match(rb"\s*([A-Za-z_]\w{0,63})", one) for one in listed)
        found |= dict.fromkeys(one[1].decode() for one in names if one)
    return [one for one in found if one not in sys.stdlib_module_names][:MOST_MODULES]


def places(names: Sequence[str], folders: Sequence[str]) -> dict[str, str]:
    """Return the first folder that has each module, for the modules found."""
    found: dict[str, str] = {}
    for folder in folders:
        for name in names:
            path = os.path.join(folder, name)
            if name not in found and (system.isdir(path) or system.exists(f"{path}.py")):
                found[name] = folder
    return found


def python_files(folder: str) -> dict[str, int] | None:
    """Return the sizes of all `*.py` below a folder by their names in it.

    Return None if there are more than `MOST_FILES`, or if that takes too long.
    """
    found: dict[str, int] = {}
    folders, seen, deadline = [""], 0, system.monotonic() + SECONDS
    while folders:
        below = folders.pop()
        inside, files, others = _scan(folder, below)
        folders += inside
        found |= files
        seen += others
        late = system.monotonic() > deadline
        if late or len(found) > MOST_FILES or seen > MOST_OTHERS:
            return None
    return found


def _scan(top: str, below: str) -> tuple[list[str], dict[str, int], int]:
    """Return the folders in a folder, its Python files, and the number of other entries.

    A folder with data counts as empty; links to folders are not followed.
    """
    folders: list[str] = []
    files: dict[str, int] = {}
    others = 0
    try:
        with system.scandir(os.path.join(top, below)) as listed:
            for entry in listed:
                if others > DATA or len(files) > MOST_FILES:
                    break
                if entry.name.endswith(".py"):
                    _add(entry, below, files)
                    continue
                others += 1
                if entry.is_dir(follow_symlinks=False) and _has_code(entry.name):
                    folders.append(f"{below}{entry.name}/")
    except OSError:  # no permission, or just removed
        pass
    return ([], {}, others) if others > DATA else (folders, files, others)


def _add(entry: os.DirEntry[str], below: str, files: dict[str, int]) -> None:
    try:
        status = entry.stat()
    except OSError:  # a link to nothing
        return
    if S_ISREG(status.st_mode):
        files[f"{below}{entry.name}"] = status.st_size


def _has_code(name: str) -> bool:
    return name[0] != "." and name not in SKIPPED


def files_digest(files: Mapping[str, int] | None) -> str:
    """Return a digest of names and sizes, "" for None."""
    if files is None:
        return ""
    rows = (f"{name}\0{size}\n" for name, size in sorted(files.items()))
    return _sha256("".join(rows).encode("utf-8", "surrogateescape"))


def _sha256(data: bytes) -> str:
    for name in SHA:
        try:
            return str(__import__(name).sha256(data).hexdigest())
        except ImportError:
            continue
    raise AssertionError
