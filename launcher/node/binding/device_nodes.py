"""Which NUMA node each worker belongs to: its device's, or the nearest one with usable cores."""

from __future__ import annotations

from ...common.cpu_list import format_cpus
from ...common.values import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from .topology import Topology


class DeviceNodes(NamedTuple):
    """Where the workers belong.

    Attributes:
        nodes: the node of each worker, by local rank; None where devices do not decide it.
        notes: lines on what was not as it should be.
    """

    nodes: list[int] | None
    notes: list[str]


def find_homes(
    topology: Topology,
    usable: Collection[int],
    device_nodes: Sequence[int | None],
    *,
    devices: bool = False,
) -> DeviceNodes:
    """Find the workers' nodes among the `usable` ones, given those of their devices.

    One device whose node is not known is enough for none to count: the others would have their
    own cores, and it the rest.
    """
    if not devices and all(own is None for own in device_nodes):
        return DeviceNodes(None, [])
    found = [_home(topology, usable, own) for own in device_nodes]
    if lost := [rank for rank, home in enumerate(found) if home is None]:
        return DeviceNodes(
            None, [f"{_devices(lost)}: NUMA node not known, so workers are spread evenly"]
        )
    homes = [home for home in found if home is not None]
    return DeviceNodes(homes, list(_moved(topology, device_nodes, homes)))


def _home(topology: Topology, usable: Collection[int], own: int | None) -> int | None:
    if len(usable) == 1:
        return next(iter(usable))
    if own is None:
        return None
    nearest = (own, *topology.near.get(own, ()))
    return next((node for node in nearest if node in usable), None)


def _moved(
    topology: Topology, device_nodes: Sequence[int | None], homes: Sequence[int]
) -> Iterable[str]:
    """A line for each node whose devices' workers must take another node's cores."""
    ways = [
        (topology.twins.get(own, own), home)
        for own, home in zip(device_nodes, homes, strict=True)
        if own is not None
    ]
    for own, home in dict.fromkeys(ways):
        if own != home:
            ranks = [rank for rank, way in enumerate(ways) if way == (own, home)]
            yield f"{_devices(ranks)}: no usable core on NUMA node {own}, so node {home} is used"


def _devices(ranks: Sequence[int]) -> str:
    plural = "s" if len(ranks) > 1 else ""
    return f"device{plural} of local rank{plural} {format_cpus(ranks)}"
