"""Find out why execve(2) would refuse a file, and how to fix it."""

from __future__ import annotations

import os

from . import files

FIRST_LINE = 256
"""Bytes of the first line that the kernel reads (BINPRM_BUF_SIZE of linux/binfmts.h)."""


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
