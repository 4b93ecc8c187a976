"""Finds the full file system that a worker writes to."""

from __future__ import annotations

import os
import re

from ...common import system
from ...common.network import lines_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

VARIABLES = ("TMPDIR", "HF_HOME", "XDG_CACHE_HOME", "TORCH_HOME", "TRITON_CACHE_DIR", "HOME")
"""Variables that name folders in which libraries write."""

FIXED = ("/tmp", "/dev/shm")

REMOTE = re.compile(r"nfs|cifs|smb|lustre|gpfs|beegfs|ceph|gluster|fuse|9p|afs|panfs|pvfs|wekafs")
"""Kinds of file systems that may not answer. They are asked only if the worker has named them."""

_NAMED = re.compile(r"['\"](/[^'\"\n]+)['\"]")

LAST = 2048
"""Characters of a worker's output that are searched for the path."""


def full(output: str, workdir: str, environ: Mapping[str, str], root: str = "/") -> str:
    """Return a full file system in words, "" if no known one is full.

    Args:
        output: the end of the worker's output, which may name a path.
        workdir: its working folder.
        environ: its environment.
        root: the folder that contains /proc.
    """
    named = [*_NAMED.findall(output[-LAST:]), workdir]
    others = [environ.get(name, "") for name in VARIABLES]
    mounts = _mounts(root)
    for path in (*named, *others, *FIXED):
        point, kind = _mount_of(path, mounts)
        if point and (path in named or not REMOTE.search(kind)) and (text := _words(point)):
            return f"{point} ({kind}) is full: {text}"
    return ""


def _mounts(root: str) -> list[tuple[str, str]]:
    """Return the mount points and kinds of file systems (proc(5))."""
    rows = (line.split(" ") for line in lines_of(f"{root}proc/self/mounts"))
    return [(_unescaped(row[1]), row[2]) for row in rows if len(row) > 2]


def _unescaped(path: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), path)


def _mount_of(path: str, mounts: Sequence[tuple[str, str]]) -> tuple[str, str]:
    """Return the file system of a path by its name; links are not followed, which may block."""
    if not path.startswith("/"):
        return "", ""
    whole = f"{os.path.normpath(path)}/"
    above = [one for one in mounts if whole.startswith(f"{one[0].rstrip('/')}/")]
    return max(reversed(above), key=lambda one: len(one[0]), default=("", ""))


def _words(point: str) -> str:
    try:
        found = system.statvfs(point)
    except OSError:
        return ""
    return next(_shortages(found), "")


def _shortages(found: os.statvfs_result) -> Iterator[str]:
    """Yield the exhausted resources: space, even if an unusably small rest is free, or files."""
    total, free = found.f_blocks * found.f_frsize, found.f_bavail * found.f_frsize
    if total and free * 100 < total and free < 1 << 26:
        whole = f"{total >> 20} MiB" if total >> 20 else f"{total >> 10} KiB"
        yield f"{free >> 10} KiB of {whole} are free"
    if found.f_files and not found.f_favail:
        yield "it has no room for another file"
