"""The devices of this node: whose they are, which are visible, and what slots mean among them."""

from __future__ import annotations

import os

from ...accelerator import detect

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ..control.messages import Slot


class Devices:
    """What was found here."""

    def __init__(self, own: Mapping[str, str], sent: Mapping[str, str]) -> None:
        """Look, with the node's own environment (its masks) and what travelled (the choice).

        Raises:
            ValueError: the vendor that is named is not known.
        """
        environ = {**own, **sent}
        self._accelerator = detect.detect(environ)
        self.visible = detect.visible(self._accelerator, environ)
        self._mask = environ.get(self._accelerator.visible_env or "")

    @property
    def kind(self) -> str:
        """The accelerator's name, "cpu" for none."""
        return self._accelerator.name

    def entries(self, slots: Sequence[Slot]) -> tuple[str, ...]:
        """Return the devices that the slots mean; () where slots are only a count.

        Raises:
            ValueError: a slot is none of the visible devices.
        """
        if self._accelerator.visible_env is None:
            return ()
        try:
            return detect.choose(slots, self.visible)
        except ValueError as error:
            shown = f" by {self._accelerator.visible_env}={self._mask}"
            by = shown if self._mask is not None else ""
            raise ValueError(f"{error}{by}") from None

    def mask(self, entries: Sequence[str]) -> dict[str, str]:
        """Return the variable that shows a process these devices and no others."""
        return detect.mask(self._accelerator, entries)

    def count(self) -> int:
        """Return how many workers belong here when nobody says: one a device, else a NUMA node."""
        if self.visible:
            return len(self.visible)
        from . import topology

        return topology.numa_nodes(topology.read_topology(allowed=os.sched_getaffinity(0)))
