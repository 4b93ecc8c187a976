"""The one made-up device, as far as its processes and its driver share it."""

from __future__ import annotations

import os
from pathlib import Path

NAME = "NVIDIA H200"
UUID = "8932f937-d72c-4106-c12f-20bd9faed9f6"
ADDRESS = "0000:00:03.0"
TOTAL = 150_000_000_000
DRIVER = "580.159.03"

HELD = Path(os.environ.get("STAND_IN_FOLDER", "/nonexistent"))
"""Has a file for each process that uses the device: its name is the pid, its text the bytes."""


def fault(name: str) -> bool:
    """Return whether this is wrong with the device, its driver or its library."""
    return os.environ.get("STAND_IN_FAULT") == name


def hold(size: int) -> None:
    """Note that this process holds so many bytes of the device."""
    (HELD / str(os.getpid())).write_text(str(size))


def holders() -> dict[int, int]:
    """Return what the processes hold that still run, by pid."""
    files = (file for file in HELD.glob("[0-9]*") if Path("/proc", file.name).exists())
    return {int(file.name): int(file.read_text() or 0) for file in files}


def visible() -> list[int]:
    """Return the indices of the devices that this process sees, as CUDA counts them."""
    text = os.environ.get("CUDA_VISIBLE_DEVICES", "0")
    entries = [] if fault("mask") else text.split(",")
    seen = []
    for entry in entries or ["0"]:
        if entry != "0" and not (len(entry) > 4 and f"GPU-{UUID}".startswith(entry)):
            break
        seen.append(0)
    return seen
