"""What this machine knows about why a worker died."""

from __future__ import annotations

import os
import signal

from ..common.network import lines_of


def out_of_memory_kills() -> int:
    """Return how often the kernel's OOM killer has killed on this machine since boot."""
    for line in lines_of("/proc/vmstat"):
        name, _, value = line.partition(" ")
        if name == "oom_kill":
            return int(value)
    return 0


def hint(number: int, kills_before: int) -> str:
    """Return what this machine knows about why a worker died of a signal, or "".

    Args:
        number: the signal.
        kills_before: `out_of_memory_kills()` at the start.
    """
    kills = out_of_memory_kills() - kills_before if number == signal.SIGKILL else 0
    if kills > 0:
        return f"out of memory: the kernel's OOM killer was active here (oom_kill +{kills})"
    if number == signal.SIGBUS and shared_memory_full():
        return "/dev/shm is full"
    return ""


def shared_memory_full() -> bool:
    """Return whether /dev/shm has less than 1 % left, the usual cause of a SIGBUS in training."""
    try:
        stat = os.statvfs("/dev/shm")
    except OSError:
        return False
    return stat.f_blocks > 0 and stat.f_bavail * 100 < stat.f_blocks
