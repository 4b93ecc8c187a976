"""Findings of the quick check about devices and room on disks. Pure."""

from __future__ import annotations

from ...common.wording import counted
from .runner_findings import finding, outliers, size
from .runner_versions import listed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ...control.facts import DeviceFacts, Space
    from .runner_findings import ComparedNode, Finding

FREE = 0.8
"""Share of a device's memory that is free when nobody uses it: the driver keeps a little."""


def check(compared: Sequence[ComparedNode]) -> Iterator[Finding]:
    """Yield findings about devices that the job uses."""
    having = [one for one in compared if one.facts.devices]
    for outlier in outliers(having, _models):
        yield finding("device-model", outlier.nodes, outlier.words("devices:"))
    yield from _counts([one for one in having if one.slots is None])
    for one in having:
        yield from _own(one)


def _models(one: ComparedNode) -> str:
    return ", ".join(dict.fromkeys(device.name for device in one.facts.devices))


def _counts(compared: Sequence[ComparedNode]) -> Iterator[Finding]:
    for outlier in outliers(compared, lambda one: str(len(one.facts.devices))):
        if int(outlier.value) < int(outlier.common):
            yield finding("device-count", outlier.nodes, outlier.words("devices:"))


def _own(one: ComparedNode) -> Iterator[Finding]:
    used = [device for device in one.facts.devices if _is_used(one, device)]
    for device in used:
        for problem in device.problems:
            yield finding("device-problem", [one.name], f"device {device.id}: {problem}")
    users = {device.id: device.users for device in used if device.users}
    if users:
        who = listed(list(dict.fromkeys(user for some in users.values() for user in some)))
        text = f"{_devices(list(users))} in use by {who}"
        yield finding("device-users", [one.name], text)
    full = [device for device in used if not device.users and device.free < FREE * device.total]
    if full:
        free = size(min(device.free for device in full))
        text = f"{_devices([device.id for device in full])} with only {free} free"
        yield finding("device-memory", [one.name], text)


def _is_used(one: ComparedNode, device: DeviceFacts) -> bool:
    """Return whether the job uses a device; slots are ids, or indexes of visible devices."""
    if one.slots is None:
        return True
    return device.id in one.slots or one.facts.devices.index(device) in one.slots


def _devices(ids: Sequence[str]) -> str:
    return f"device{'' if len(ids) == 1 else 's'} {listed(ids)}"


NONE_LEFT = 1 << 20
"""Bytes below which a disk counts as full."""

LITTLE = 1 << 30
SHARE = 0.1
FEW_FILES = 1000

SHM_EACH = 64 << 20
"""Bytes of shared memory for each worker: what Docker gives a whole container."""


def check_space(compared: Sequence[ComparedNode]) -> Iterator[Finding]:
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
