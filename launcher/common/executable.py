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
"""What the kernel calls ENOEXEC (execve(2))."""

WINDOWS = "its first line ends in a carriage return, as on Windows (fix: sed -i 's/\\r$//' FILE)"
"""Why no program of such a name is found."""

FORMATS = "/proc/sys/fs/binfmt_misc"
"""Further kinds of programs, which an administrator registers (binfmt_misc of the kernel)."""

ELF = b"\x7fELF"
"""How programs begin that were compiled (elf(5))."""


def find(name: str, folders: Iterable[str] | None = None) -> str:
    """Return the absolute path of a program that this user can execute, "" if there is none.

    All programs that dsrun itself needs are found here. Anybody may write to the current folder,
    to that of a worker's program, and to what a worker's PATH names, so none of them is searched.

    Args:
        name: of the program; one with a slash is a path, for which nothing is searched.
        folders: where to search, None for `own_folders`. Relative ones are left out.
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
    """Return the folders of dsrun's own PATH, of these interpreters, and of the one that runs it.

    A shell would search relative and empty entries of PATH (execvp(3)) in the current folder, so
    they are left out.
    """
    path = os.environ.get("PATH", os.defpath).split(os.pathsep)
    folders = [*path, *map(os.path.dirname, (*pythons, sys.executable))]
    return [*filter(os.path.isabs, folders)]


def own_path() -> dict[str, str]:
    """Return PATH for programs that search it for ssh: it has no relative or empty entries."""
    folders = filter(os.path.isabs, os.environ.get("PATH", os.defpath).split(os.pathsep))
    return {"PATH": os.pathsep.join(folders) or os.defpath}  # an empty one is the current folder


def _runs(path: str) -> bool:
    return system.access(path, os.X_OK) and not system.isdir(path)


def fault(path: str) -> str:
    """Return why this user cannot execute a file, "" if no reason is known."""
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
    """Return why the kernel does not know how to run a file that begins so, "" if it does."""
    if start.startswith(b"#!"):
        line, end, _ = start.partition(b"\n")
        if end and line.endswith(b"\r") and b" -S" not in line:  # env -S leaves it out
            return WINDOWS
        return _interpreter_fault(_interpreter(start))
    if start.startswith(ELF) or _is_registered(path, start):
        return ""
    return NEITHER if start else "is empty"


def _refusal(path: str) -> str:
    """Return why there is no right to execute a file."""
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
    """Return what the kernel reads of a program to see what it is.

    It is None if we may not read it, which the kernel does not ask for.
    """
    try:
        with open(path, "rb") as file:
            return file.read(FIRST_LINE)
    except OSError:
        return None


def _is_registered(path: str, start: bytes) -> bool:
    """Return whether a file is of a kind for which the kernel knows an interpreter."""
    try:
        texts = [_text(f"{FORMATS}/{name}") for name in os.listdir(FORMATS)]
    except OSError:
        return False
    return any(fits(text, os.path.basename(path), start) for text in texts)


def fits(text: str, name: str, start: bytes) -> bool:
    """Return whether an entry of binfmt_misc is for a file of this name and content. Pure."""
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
    """Return the program named after `#!`, "" for none."""
    line = start.partition(b"\n")[0]
    words = line.removeprefix(b"#!").strip(b" \t").replace(b"\t", b" ").split(b" ", 1)
    return os.fsdecode(words[0])
