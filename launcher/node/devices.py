"""The devices of this node: whose they are, which are visible, and what slots mean among them."""

from __future__ import annotations

import os

from ...accelerator import detect

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ...accelerator.hardware.pci import Function
    from ..specs.host import Slot


class Devices:
    """What was found here."""

    def __init__(self, own: Mapping[str, str], sent: Mapping[str, str], root: str = "/") -> None:
        """Look, with the node's own environment (its masks) and what travelled (the choice).

        Raises:
            ValueError: the vendor that is named is not known.
        """
        self._environ = {**own, **sent}
        self._root = root
        self._accelerator = detect.detect(self._environ, root)
        self.visible = detect.visible(self._accelerator, self._environ, root)

    @property
    def kind(self) -> str:
        """The accelerator's name, "cpu" for none."""
        return self._accelerator.name

    @property
    def title(self) -> str:
        """What the devices are called, in the plural."""
        return self._accelerator.title

    @property
    def alone(self) -> bool:
        """Whether each worker must see its own device only, as with --virtual_local_rank."""
        return self._accelerator.alone

    def entries(self, slots: Sequence[Slot]) -> tuple[str, ...]:
        """Return the devices that the slots mean; () where slots are only a count.

        Raises:
            ValueError: a slot is none of the visible devices.
        """
        if not self._accelerator.has_devices:
            return ()
        try:
            return detect.choose(slots, self.visible)
        except ValueError as error:
            raise ValueError(f"{error}{self._masked()}{self._short(len(slots))}") from None

    def mask(self, entries: Sequence[str]) -> dict[str, str]:
        """Return the variables that show a process these devices and no others."""
        return detect.mask(self._accelerator, entries)

    def count(self) -> int:
        """Return how many workers belong here when nobody says: one a device, else a NUMA node."""
        if self.visible:
            return len(self.visible)
        from .binding import topology

        return topology.numa_nodes(topology.read_topology(allowed=os.sched_getaffinity(0)))

    def addresses(self, entries: Sequence[str]) -> dict[str, str]:
        """Return the PCI address of each device for which it is known."""
        return detect.locate(self._accelerator, entries, self._environ, self._root)

    def functions(self, addresses: Mapping[str, str]) -> dict[str, Function]:
        """Return the PCI function of each device whose address is given, as far as sysfs has it."""
        from ...accelerator.hardware import pci

        found = {entry: pci.function(place, self._root) for entry, place in addresses.items()}
        return {entry: one for entry, one in found.items() if one}

    def nodes_of(self, entries: Sequence[str]) -> dict[str, int | None]:
        """Return the NUMA node of each device, None where it is not known."""
        found = self.functions(self.addresses(entries))
        return {entry: found[entry].node if entry in found else None for entry in entries}

    def _masked(self) -> str:
        """Which variables hide devices, in words."""
        found = detect.masks(self._accelerator, self._environ).items()
        masks = " within ".join(f"{name}={value}" for name, value in found)
        return f" by {masks}" if masks else ""

    def _short(self, workers: int) -> str:
        """How many devices are missing, in words."""
        if workers <= len(self.visible):
            return ""
        return f"; {self._accelerator.title} here: {len(self.visible)}, workers: {workers}"
