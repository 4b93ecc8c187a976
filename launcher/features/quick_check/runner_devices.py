"""Checks that the devices of all nodes are alike, healthy and free. Pure."""

from __future__ import annotations

from .runner_compared_node import outliers, size
from .runner_findings import finding
from .runner_versions import listed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ...control.facts import DeviceFacts
    from .runner_compared_node import ComparedNode
    from .runner_findings import Finding

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
