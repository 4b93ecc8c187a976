"""The error file, in which torch's `record` saves the exception that ends a worker.

`record` writes it to TORCHELASTIC_ERROR_FILE (torch 2.13, `elastic/multiprocessing/errors`).
Without a log folder, the file is in memory and has no name in any folder. Nothing is left behind,
however the node launcher ends.
"""

from __future__ import annotations

import os
import stat

from ...common import system
from ...common.text import read_json

VARIABLE = "TORCHELASTIC_ERROR_FILE"

LIMIT = 1 << 20
"""Maximum size in bytes of an error file that is read; `record` writes none that is larger."""

KEPT = 16 * 1024
"""Number of characters kept of a message, and of the end of a traceback."""


def in_memory() -> tuple[int, str]:
    """Return a new file's descriptor, and a path by which other processes of this user open it.

    Raises:
        OSError: the kernel has no memory files, or no descriptor is left.
    """
    fd = system.memfd_create("error.json", os.MFD_CLOEXEC)
    return fd, f"/proc/{system.getpid()}/fd/{fd}"


def read(path: bytes) -> list[str]:
    """Return the message and the traceback in an error file; "" for a missing one."""
    try:
        content = read_json(_content(path))
    except (OSError, ValueError):
        return ["", ""]
    message = _item(content, "message")
    if isinstance(message, str):  # written by a signal handler
        return [_text(message)[:KEPT], ""]
    traceback = _item(_item(message, "extraInfo"), "py_callstack")
    return [_text(_item(message, "message"))[:KEPT], _text(traceback)[-KEPT:]]


def _content(path: bytes) -> bytes:
    fd = system.open_fd(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with system.open_file(fd, "rb") as file:
        data = file.read(LIMIT + 1) if stat.S_ISREG(system.fstat(fd).st_mode) else b""
    return data if len(data) <= LIMIT else b""


def _item(value: object, name: str) -> object:
    return value.get(name) if isinstance(value, dict) else None


def _text(value: object) -> str:
    """Return printable text: JSON can hold lone surrogates, which cannot be encoded."""
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else ""
