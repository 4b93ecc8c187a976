"""What torch's `record` keeps of the exception that ends a worker: its error file.

`record` writes it to TORCHELASTIC_ERROR_FILE (torch 2.13, `elastic/multiprocessing/errors`). Where
no log folder keeps it, the file is one in memory, without a name in any folder: nothing of it can
be left behind, however the node launcher ends.
"""

from __future__ import annotations

import json
import os
import stat

VARIABLE = "TORCHELASTIC_ERROR_FILE"

LIMIT = 1 << 20
"""Bytes of an error file that is read; a larger one is none of `record`'s."""

KEPT = 16 * 1024
"""Characters kept of a message, and of the end of a traceback."""


def in_memory() -> tuple[int, str]:
    """Return a new file's descriptor, and the path by which other processes of this user open it.

    Raises:
        OSError: the kernel has no such files.
    """
    fd = os.memfd_create("error.json", os.MFD_CLOEXEC)
    return fd, f"/proc/{os.getpid()}/fd/{fd}"


def read(path: bytes) -> list[str]:
    """Return the message and the traceback in an error file; "" for what is not in it."""
    try:
        found = json.loads(_content(path))
    except (OSError, ValueError, RecursionError):
        return ["", ""]
    message = _item(found, "message")
    if isinstance(message, str):  # by a handler of a signal's
        return [_text(message)[:KEPT], ""]
    traceback = _item(_item(message, "extraInfo"), "py_callstack")
    return [_text(_item(message, "message"))[:KEPT], _text(traceback)[-KEPT:]]


def _content(path: bytes) -> bytes:
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(fd, "rb") as file:
        data = file.read(LIMIT + 1) if stat.S_ISREG(os.fstat(fd).st_mode) else b""
    return data if len(data) <= LIMIT else b""


def _item(found: object, name: str) -> object:
    return found.get(name) if isinstance(found, dict) else None


def _text(found: object) -> str:
    """Return a text; JSON can hold halves of characters, which no terminal takes."""
    return found.encode("utf-8", "replace").decode() if isinstance(found, str) else ""
