"""The lock that a run holds while its workers may run in a synced folder."""

from __future__ import annotations

import errno
import fcntl
import os

from ...specs.environment import from_wire


def hold(lock: str, digest: str) -> int:
    """Return a descriptor that protects a synced folder from changes until it is closed.

    Args:
        lock: the path of its lock file, as `to_wire` makes it.
        digest: the digest of the content that sync has placed there.

    Raises:
        OSError: the folder is being changed, or was since.
    """
    fd = os.open(from_wire(lock), os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        if os.pread(fd, len(digest) + 1, 0) != digest.encode():
            raise OSError(errno.EBUSY, "was changed by another job; start again")
    except BaseException:
        os.close(fd)
        raise
    return fd
