"""Parse and format lists of cpu numbers, as users and the kernel write them."""

from __future__ import annotations

import re

from .errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

# Five digits: more cpus than Linux can be built for (NR_CPUS), few enough to list.
_WRITTEN = re.compile(r"([0-9]{1,5})(?:-([0-9]{1,5}))?")
_KERNELS = re.compile(r"([0-9]+)(?:-([0-9]+))?")


def parse_core_list(text: str, where: str = "--bind_core_list") -> tuple[int, ...]:
    """Parse a list such as `1,3-5`; return the cpu numbers in ascending order.

    Raises:
        UsageError: a part is neither a number nor an ascending range, or a cpu is listed twice.
    """
    cpus: set[int] = set()
    for part in text.split(","):
        numbers = _parse_part(part.strip(), where)
        if repeated := cpus & numbers:
            raise UsageError(f"{where}: '{text}': cpu {format_cpus(repeated)} is listed twice")
        cpus |= numbers
    return tuple(sorted(cpus))


def format_cpus(cpus: Iterable[int]) -> str:
    """Format cpu numbers as the kernel does: `0-3,8`."""
    ranges: list[list[int]] = []
    for cpu in sorted(set(cpus)):
        if ranges and cpu == ranges[-1][-1] + 1:
            ranges[-1][1:] = [cpu]
        else:
            ranges.append([cpu])
    return ",".join("-".join(map(str, ends)) for ends in ranges)


def kernels_list(text: str) -> set[int]:
    """Parse a list of the kernel's, such as `0-3,8`; text without numbers is an empty set."""
    ranges = ((int(first), int(last or first)) for first, last in _KERNELS.findall(text))
    return {number for first, last in ranges for number in range(first, last + 1)}


def _parse_part(part: str, where: str) -> set[int]:
    match = _WRITTEN.fullmatch(part)
    first, last = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
    if first > last:
        raise UsageError(f"{where}: '{part}': expected cpu numbers, such as '1' or '3-5'")
    return set(range(first, last + 1))
