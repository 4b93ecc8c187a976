"""The devices of this node: their vendor, the visible ones, and the meaning of slots."""

from __future__ import annotations

from itertools import islice

from ....accelerator import detect, vendors
from ...common import system

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ....accelerator.hardware.pci import Function
    from ...specs.host import Slot


NONE = "; docs/accelerators.md explains how they are found; without --accelerator none is needed"
"""Advice for a machine without the requested devices."""


class NodeDevices:
    """The devices of this node."""

    def __init__(self, own: Mapping[str, str], sent: Mapping[str, str], root: str = "/") -> None:
        """Detect the devices, using the node's own environment (masks) and the job's (vendor).

        Raises:
            ValueError: the named vendor is unknown.
        """
        self._environ = {**own, **sent}
        self._root = root
        self._accelerator = detect.detect(self._environ, root)
        self.visible = detect.visible(self._accelerator, self._environ, root)
        self._numa_nodes = 0

    @property
    def kind(self) -> str:
        """The accelerator's name, "cpu" for none."""
        return self._accelerator.name

    @property
    def title(self) -> str:
        """The name of the devices in messages, in the plural."""
        return self._accelerator.title

    @property
    def alone(self) -> bool:
        """True if each worker must see its own device only, as with --virtual_local_rank."""
        return self._accelerator.alone

    def entries(self, slots: Sequence[Slot]) -> tuple[tuple[str, ...], ...]:
        """Return the devices of each slot; () if slots are only a count.

        Raises:
            ValueError: a slot is not one of the visible devices.
        """
        if not self._accelerator.has_devices:
            return ()
        groups = _devices_of_each(slots)
        try:
            chosen = iter(detect.choose([one for own in groups for one in own], self.visible))
        except ValueError as error:
            if not self.visible:
                raise ValueError(
                    f"no {self._accelerator.title} here{self._masked()}{NONE}"
                ) from None
            raise ValueError(f"{error}{self._masked()}{self._short(groups)}") from None
        return tuple(tuple(islice(chosen, len(own))) for own in groups)

    def mask(self, entries: Sequence[str]) -> dict[str, str]:
        """Return the variables that make only these devices visible to a process."""
        return vendors.mask(self._accelerator, entries)

    def count(self) -> int:
        """Return the default number of workers here: one per device, else one per NUMA node."""
        if self.visible:
            return len(self.visible)
        if not self._numa_nodes:
            from ...features.binding import node_topology as topology

            cores = topology.read_topology(allowed=system.sched_getaffinity(0))
            self._numa_nodes = topology.numa_nodes(cores)
        return self._numa_nodes

    def addresses(self, entries: Sequence[str]) -> dict[str, str]:
        """Return the known PCI addresses of the devices."""
        return detect.locate(self._accelerator, entries, self._environ, self._root)

    def functions(self, addresses: Mapping[str, str]) -> dict[str, Function]:
        """Return the PCI function of each device at a given address, if sysfs has it."""
        from ....accelerator.hardware import pci

        functions = {entry: pci.function(one, self._root) for entry, one in addresses.items()}
        return {entry: one for entry, one in functions.items() if one}

    def nodes_of(self, entries: Sequence[str]) -> dict[str, int | None]:
        """Return the NUMA node of each device, None if unknown."""
        known = self.functions(self.addresses(entries))
        return {entry: known[entry].node if entry in known else None for entry in entries}

    def _masked(self) -> str:
        variables = detect.masks(self._accelerator, self._environ).items()
        masks = " and ".join(f"{name}={value}" for name, value in variables)
        return f", limited by {masks}" if masks else ""

    def _short(self, groups: Sequence[Sequence[Slot]]) -> str:
        wanted, workers = sum(map(len, groups)), len(groups)
        if wanted <= len(self.visible):
            return ""
        each = "" if wanted == workers else f" with {wanted} devices"
        here = f"{self._accelerator.title} here: {len(self.visible)}"
        return f"; {here}, workers: {workers}{each}"


def _devices_of_each(slots: Sequence[Slot]) -> list[tuple[Slot, ...]]:
    """Return the devices that each slot stands for; a number stands for itself."""
    if all(isinstance(slot, int) for slot in slots):
        return [(slot,) for slot in slots]
    from ...specs.host import devices_of

    return [devices_of(slot) for slot in slots]
