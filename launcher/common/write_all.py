"""Write to a descriptor that blocks: a file, whose disk may take only a part at a time."""

from __future__ import annotations

from . import system


def write_all(fd: int, data: bytes) -> None:
    """Write all data.

    Raises:
        OSError: the data cannot be written; a part may have been written.
    """
    rest = memoryview(data)
    while rest:
        rest = rest[system.write(fd, rest) :]
