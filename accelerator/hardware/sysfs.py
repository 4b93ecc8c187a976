"""Small files of /sys and /proc, which containers may hide: what cannot be read is empty."""

from __future__ import annotations

import os

_LIMIT = 1 << 16


def text(path: str) -> str:
    """Return a small file's text, at most 64 KiB; "" where it cannot be read."""
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
    """Return the text of a file of one line, without its end; "" where it cannot be read."""
    return text(path).strip()


def names(folder: str) -> list[str]:
    """Return the names in a folder; none where it cannot be read."""
    try:
        return os.listdir(folder)
    except OSError:
        return []


def _content(fd: int) -> bytes:
    """All there is up to the limit: files of /proc may give no more than a page at a time."""
    found = b""
    while len(found) < _LIMIT and (more := os.read(fd, _LIMIT - len(found))):
        found += more
    return found
