"""Find programs, and find out why execve(2) would refuse a file and how to fix it."""

from __future__ import annotations

import errno
import os
import sys

from . import files, system

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

FIRST_LINE = 256
"""Bytes of the first line that the kernel reads (BINPRM_BUF_SIZE of linux/binfmts.h)."""


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


def _runs(path: str) -> bool:
    return system.access(path, os.X_OK) and not system.isdir(path)


def fault(path: str) -> str:
    """Return why this user cannot execute a file, "" if no reason is known."""
    if not os.path.exists(path):
        return "no such file"
    if not os.path.isfile(path):
        return f"is {files.kind(os.stat(path).st_mode)}, not a program"
    if not os.access(path, os.X_OK):
        return f"is not executable (chmod +x {path})"
    interpreter = _interpreter(path)
    if interpreter.endswith("\r"):
        return (
            "its first line ends in a carriage return, as on Windows (fix: sed -i 's/\\r$//' FILE)"
        )
    if interpreter and not os.access(interpreter, os.X_OK):
        what = "is not executable" if os.path.exists(interpreter) else "does not exist"
        return f"its interpreter {interpreter} (first line) {what}"
    return ""


def _interpreter(path: str) -> str:
    """Return the program named after `#!`, "" for none."""
    try:
        with open(path, "rb") as file:
            line = file.read(FIRST_LINE).partition(b"\n")[0]
    except OSError:
        return ""  # a file that cannot be read may still be executable
    words = line.removeprefix(b"#!").strip(b" \t").replace(b"\t", b" ").split(b" ", 1)
    return os.fsdecode(words[0]) if line.startswith(b"#!") else ""
