"""Reads numbers from files of sysfs; unreadable ones are empty."""

from __future__ import annotations

from ....accelerator.hardware.sysfs import line, names, text
from ...common.cpu_list import kernels_list

__all__ = ["names", "number", "numbers", "text"]


def number(path: str) -> int | None:
    """Return a file's only number, 0 or more; None without one."""
    value = line(path)
    return int(value) if value.isdecimal() else None


def numbers(path: str) -> set[int]:
    """Return the numbers of a file such as `0-3,8`."""
    return kernels_list(text(path))
