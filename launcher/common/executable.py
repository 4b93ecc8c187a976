"""Why a file cannot be run as a program, as execve(2) has it, in words that say what to do."""

from __future__ import annotations

import os

from . import files

FIRST_LINE = 256
"""Bytes of the first line that the kernel reads (BINPRM_BUF_SIZE of linux/binfmts.h)."""


def fault(path: str) -> str:
    """Return why this user cannot run a file, "" where nothing is known against it."""
    if not os.path.exists(path):
        return "there is no such file"
    if not os.path.isfile(path):
        return f"is {files.kind(os.stat(path).st_mode)}, not a program"
    if not os.access(path, os.X_OK):
        return f"is not executable (chmod +x {path})"
    interpreter = _interpreter(path)
    if interpreter.endswith("\r"):
        return (
            "its first line ends in a carriage return, as on Windows (sed -i 's/\\r$//' mends it)"
        )
    if interpreter and not os.access(interpreter, os.X_OK):
        what = "is not executable" if os.path.exists(interpreter) else "does not exist"
        return f"its interpreter {interpreter} (first line) {what}"
    return ""


def _interpreter(path: str) -> str:
    """Return the program that `#!` names, "" for none."""
    try:
        with open(path, "rb") as file:
            line = file.read(FIRST_LINE).partition(b"\n")[0]
    except OSError:
        return ""  # it may be run though not be read
    words = line.removeprefix(b"#!").strip(b" \t").replace(b"\t", b" ").split(b" ", 1)
    return os.fsdecode(words[0]) if line.startswith(b"#!") else ""
