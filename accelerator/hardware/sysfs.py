"""Reads small files of /sys and /proc. Containers may hide them; unreadable ones are empty."""

from __future__ import annotations

import os

_LIMIT = 1 << 16


def text(path: str) -> str:
    """Return a small file's text, at most 64 KiB; "" if it cannot be read."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return ""
    try:
        return _content(fd).decode("utf-8", "replace")
    except OSError:
        return ""
    finally:
        os.close(fd)


def line(path: str) -> str:
    """Return the text of a one-line file, without its end; "" if it cannot be read."""
    return text(path).strip()


def names(folder: str) -> list[str]:
    """Return the names in a folder; none if it cannot be read."""
    try:
        return os.listdir(folder)
    except OSError:
        return []


def _content(fd: int) -> bytes:
    """Return the content up to the limit: files of /proc may return only a page at a time."""
    content = b""
    while len(content) < _LIMIT and (more := os.read(fd, _LIMIT - len(content))):
        content += more
    return content
