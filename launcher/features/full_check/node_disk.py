"""Tests how fast a folder of this node is written and read."""

from __future__ import annotations

import os
import tempfile
import time

from ...common.errors import reason
from .measurements import Broken, Measured, Measurements

SIZE = 64 << 20
"""Bytes that are written and read."""

BLOCK = 1 << 20

LONGEST = 3.0
"""Seconds after which writing or reading is cut short."""

MEGA = 1e6


def disk(role: str, folder: str) -> Measurements:
    """Write, flush and read a file without a name in this folder."""
    try:
        with tempfile.TemporaryFile(prefix=".dsrun-check-", dir=folder, buffering=0) as file:
            written = _write(file.fileno())
            read = _read(file.fileno())
    except OSError as error:
        return Measurements((), (Broken(f"{role} folder", f"{folder}: {reason(error)}"),))
    rows = (Measured("write", role, written, folder), Measured("read", role, read, folder))
    return Measurements(rows, ())


def _write(fd: int) -> float:
    """Return MB/s, with the time until the data is on the disk."""
    block = os.urandom(BLOCK)
    start, done = time.perf_counter(), 0
    while done < SIZE and time.perf_counter() - start < LONGEST:
        done += os.write(fd, block)
    os.fsync(fd)
    return done / (time.perf_counter() - start) / MEGA


def _read(fd: int) -> float:
    """Return MB/s; drop the file from the page cache first, if possible."""
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    os.lseek(fd, 0, os.SEEK_SET)
    start, done = time.perf_counter(), 0
    while time.perf_counter() - start < LONGEST and (data := os.read(fd, BLOCK)):
        done += len(data)
    return done / (time.perf_counter() - start) / MEGA
