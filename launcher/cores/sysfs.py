"""Small files of sysfs and procfs, which containers may hide: what cannot be read is empty."""

from __future__ import annotations

import os

from ..corelist import kernels_list


def text(path: str) -> str:
    """Return a small file's text; "" where it cannot be read."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return ""
    try:
        return os.read(fd, 1 << 16).decode("ascii", "replace")
    except OSError:
        return ""
    finally:
        os.close(fd)


def number(path: str) -> int | None:
    """Return a file's one number, 0 or more; None where there is none."""
    found = text(path).strip()
    return int(found) if found.isdecimal() else None


def numbers(path: str) -> set[int]:
    """Return the numbers of a file such as `0-3,8`."""
    return kernels_list(text(path))


def names(folder: str) -> list[str]:
    """Return the names in a folder; none where it cannot be read."""
    try:
        return os.listdir(folder)
    except OSError:
        return []
