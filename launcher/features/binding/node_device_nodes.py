"""The NUMA node of each worker: its device's, or the nearest one with usable cores."""

from __future__ import annotations

from ...common.cpu_list import format_cpus
from ...common.records import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from .node_topology import Topology


class DeviceNodes(NamedTuple):
    """The NUMA nodes of the workers.

    Attributes:
        nodes: the node of each worker, by local rank; None if devices do not determine it.
        notes: lines about anything unexpected.
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
    """Find each worker's node among the `usable` ones, given the nodes of the devices.

    If the node of one device is not known, no device counts: otherwise that worker would get only
    the cores that the others leave.
    """
    if not devices and all(own is None for own in device_nodes):
        return DeviceNodes(None, [])
    nearest = [_home(topology, usable, own) for own in device_nodes]
    if unknown := [rank for rank, home in enumerate(nearest) if home is None]:
        return DeviceNodes(
            None, [f"{_devices(unknown)}: NUMA node unknown, so workers are spread evenly"]
        )
    homes = [home for home in nearest if home is not None]
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
    """Yield a message about each node whose devices' workers must use another node's cores."""
    moves = [
        (topology.twins.get(own, own), home)
        for own, home in zip(device_nodes, homes, strict=True)
        if own is not None
    ]
    for own, home in dict.fromkeys(moves):
        if own != home:
            ranks = [rank for rank, move in enumerate(moves) if move == (own, home)]
            yield f"{_devices(ranks)}: no usable core on NUMA node {own}, so node {home} is used"


def _devices(ranks: Sequence[int]) -> str:
    plural = "s" if len(ranks) > 1 else ""
    return f"device{plural} of local rank{plural} {format_cpus(ranks)}"
