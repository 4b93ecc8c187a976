"""Checks for free space in the folders that a job writes to. Pure."""

from __future__ import annotations

from ...common.wording import counted
from .runner_compared_node import size
from .runner_findings import finding

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ...control.facts import Space
    from .runner_compared_node import ComparedNode
    from .runner_findings import Finding

NONE_LEFT = 1 << 20
"""Bytes below which a disk counts as full."""

LITTLE = 1 << 30
SHARE = 0.1
FEW_FILES = 1000

SHM_EACH = 64 << 20
"""Bytes of shared memory for each worker: what Docker gives a whole container."""


def check(compared: Sequence[ComparedNode]) -> Iterator[Finding]:
    """Yield folders without room."""
    for one in compared:
        for spaces in _by_disk(one):
            yield from _of_disk(one, spaces)


def _by_disk(one: ComparedNode) -> list[list[Space]]:
    """Return the folders of a node by file system: those with equal figures share one."""
    disks: dict[tuple[int, int, int, bool], list[Space]] = {}
    for space in one.facts.spaces:
        if space.total and (space.writable or space.role == "tmp"):
            figures = space.total, space.free, space.inodes, space.writable
            disks.setdefault(figures, []).append(space)
    return list(disks.values())


def _of_disk(one: ComparedNode, spaces: Sequence[Space]) -> Iterator[Finding]:
    total, free, inodes = spaces[0].total, spaces[0].free, spaces[0].inodes
    paths = " and ".join(dict.fromkeys(space.path for space in spaces))
    text = f"{paths}: {size(free)} of {size(total)} free"
    roles = {space.role for space in spaces}
    if not spaces[0].writable:
        yield finding("tmp", [one.name], f"{paths}: not writable")
    elif "shm" in roles and (free < NONE_LEFT or inodes == 0):
        yield finding("shm-full", [one.name], text if inodes else f"{paths}: no files left")
    elif "shm" in roles:
        if free < SHM_EACH * one.workers:
            needs = f"{counted(one.workers, 'worker')} need{'s' * (one.workers == 1)} about"
            there = f"{size(SHM_EACH * one.workers)} there"
            yield finding("shm", [one.name], f"{text}; {needs} {there}")
    elif free < min(LITTLE, SHARE * total):
        yield finding("space-low", [one.name], text)
    elif 0 <= inodes < FEW_FILES:
        yield finding("space-low", [one.name], f"{paths}: room for only {inodes} more files")
