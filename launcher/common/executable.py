"""Find programs, and find out why execve(2) would refuse a file and how to fix it."""

from __future__ import annotations

import errno
import os
import sys

from . import files, system
from .errors import reason

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

FIRST_LINE = 256
"""Bytes of the first line that the kernel reads (BINPRM_BUF_SIZE of linux/binfmts.h)."""

NEITHER = (
    "is neither a program for this machine nor a script that begins with #!, such as #!/bin/sh"
)
"""The meaning of ENOEXEC (execve(2))."""

WINDOWS = "its first line ends in a carriage return, as on Windows (fix: sed -i 's/\\r$//' FILE)"
"""The reason why the interpreter of such a script is not found."""

FORMATS = "/proc/sys/fs/binfmt_misc"
"""The folder of further kinds of programs that an administrator has registered (binfmt_misc)."""

ELF = b"\x7fELF"
"""The first bytes of compiled programs (elf(5))."""


def find(name: str, folders: Iterable[str] | None = None) -> str:
    """Return the absolute path of a program that this user can execute, or "".

    All programs that dsrun itself needs are found here. Anybody may be able to write to the current
    folder, to the folder of a worker's program, and to folders on a worker's PATH, so none of these
    is searched.

    Args:
        name: the program; a name with a slash is a path, and is not searched for.
        folders: the folders to search, None for `own_folders`. Relative folders are skipped.
    """
    places = own_folders() if folders is None else folders
    paths = [os.path.join(folder, name) for folder in places if os.path.isabs(folder)]
    return next(filter(_runs, [os.path.abspath(name)] if "/" in name else paths), "")


def located(name: str) -> str:
    """Return the absolute path of a program, as `find` does.

    Raises:
        FileNotFoundError: there is no such program.
    """
    path = os.path.abspath(name) if "/" in name else find(name)
    if not path:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), name)
    return path


def own_folders(*pythons: str) -> list[str]:
    """Return dsrun's PATH, then the folders of these interpreters and of dsrun itself.

    Relative and empty entries of PATH are left out: a shell would look them up in the current
    folder (execvp(3)).
    """
    path = os.environ.get("PATH", os.defpath).split(os.pathsep)
    folders = [*path, *map(os.path.dirname, (*pythons, sys.executable))]
    return [*filter(os.path.isabs, folders)]


def own_path() -> dict[str, str]:
    """Return PATH for programs that look up ssh themselves: without relative or empty entries."""
    folders = filter(os.path.isabs, os.environ.get("PATH", os.defpath).split(os.pathsep))
    return {"PATH": os.pathsep.join(folders) or os.defpath}  # empty: the current folder


def _runs(path: str) -> bool:
    return system.access(path, os.X_OK) and not system.isdir(path)


def fault(path: str) -> str:
    """Return why this user cannot execute a file, or "" without a clear reason."""
    if not os.path.exists(path):
        from .access import absence

        return absence(path, "no such file")
    if not os.path.isfile(path):
        return f"is {files.kind(os.stat(path).st_mode)}, not a program"
    if not os.access(path, os.X_OK):
        return _refusal(path)
    start = _start(path)
    return "" if start is None else _format_fault(path, start)


def refusal(name: str, error: OSError) -> str:
    """Return why a program could not be started."""
    path = name if "/" in name else find(name)
    return (fault(path) if path else "") or reason(error)


def _format_fault(path: str, start: bytes) -> str:
    """Return why the kernel cannot run a file that begins with these bytes, "" if it can."""
    if start.startswith(b"#!"):
        line, end, _ = start.partition(b"\n")
        if end and line.endswith(b"\r") and b" -S" not in line:  # env -S ignores it
            return WINDOWS
        return _interpreter_fault(_interpreter(start))
    if start.startswith(ELF) or _is_registered(path, start):
        return ""
    return NEITHER if start else "is empty"


def _refusal(path: str) -> str:
    """Return why this user may not execute a file."""
    if not os.stat(path).st_mode & 0o111:
        return f"is not executable (chmod +x {path})"
    from .access import denied

    return denied(path, os.X_OK) or f"is not executable (chmod +x {path})"


def _interpreter_fault(interpreter: str) -> str:
    if not interpreter or os.access(interpreter, os.X_OK):
        return ""
    from .access import absence

    named = f"its interpreter {interpreter} (first line)"
    missing = absence(interpreter, "")
    if missing:
        return f"{named}: {missing}"
    exists = os.path.exists(interpreter)
    return f"{named} {_refusal(interpreter) if exists else 'does not exist'}"


def _start(path: str) -> bytes | None:
    """Return the bytes of a program by which the kernel recognizes its kind.

    The result is None if this user may not read the file, which execve(2) does not require.
    """
    try:
        with open(path, "rb") as file:
            return file.read(FIRST_LINE)
    except OSError:
        return None


def _is_registered(path: str, start: bytes) -> bool:
    try:
        texts = [_text(f"{FORMATS}/{name}") for name in os.listdir(FORMATS)]
    except OSError:
        return False
    return any(fits(text, os.path.basename(path), start) for text in texts)


def fits(text: str, name: str, start: bytes) -> bool:
    """Return whether an entry of binfmt_misc applies to a file of this name and content. Pure."""
    rows = dict(line.partition(" ")[::2] for line in text.splitlines())
    if "enabled" not in rows:
        return False
    if "extension" in rows:
        return name.endswith(rows["extension"])
    try:
        magic, at = bytes.fromhex(rows["magic"]), int(rows["offset"])
        mask = bytes.fromhex(rows["mask"]) if "mask" in rows else b"\xff" * len(magic)
    except (KeyError, ValueError):
        return False
    part = start[at : at + len(magic)]
    masked = bytes(one & bits for one, bits in zip(part, mask, strict=False))
    return len(part) == len(magic) and masked == magic


def _text(path: str) -> str:
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read()


def _interpreter(start: bytes) -> str:
    """Return the program named after `#!`, or ""."""
    line = start.partition(b"\n")[0]
    words = line.removeprefix(b"#!").strip(b" \t").replace(b"\t", b" ").split(b" ", 1)
    return os.fsdecode(words[0])
