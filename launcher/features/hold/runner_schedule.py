"""The slots of held nodes: the run that has each, and the runs that wait. Pure.

First come, first served: a run starts once its slots are free, unless an earlier run waits for
one of them. Runs on disjoint slots run side by side, even on one node.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ...specs.host import Slot

    Places = Mapping[str, Sequence[Slot]]


class Schedule:
    """The used slots, and the runs that wait for slots.

    A run has a unique name; it lists its slots by host name.
    """

    def __init__(self) -> None:
        self._running: dict[str, frozenset[tuple[str, Slot]]] = {}
        self._waiting: dict[str, frozenset[tuple[str, Slot]]] = {}

    def ask(self, run: str, places: Places) -> bool:
        """Give a run its slots, or queue it; return whether the run has its slots."""
        wanted = frozenset((host, slot) for host, slots in places.items() for slot in slots)
        if self.blockers(places):
            self._waiting[run] = wanted
            return False
        self._running[run] = wanted
        return True

    def blockers(self, places: Places) -> list[str]:
        """Return the runs that use or wait for some of these slots, oldest first."""
        wanted = {(host, slot) for host, slots in places.items() for slot in slots}
        known = {**self._running, **self._waiting}
        return [run for run, slots in known.items() if slots & wanted]

    def release(self, run: str) -> list[str]:
        """Remove a run that has ended or waits no longer; return the runs that can start now."""
        self._running.pop(run, None)
        self._waiting.pop(run, None)
        begin = []
        taken = {place for slots in self._running.values() for place in slots}
        for other, slots in tuple(self._waiting.items()):
            if not slots & taken:
                begin.append(other)
                self._running[other] = self._waiting.pop(other)
            taken |= slots
        return begin

    @property
    def waiting(self) -> tuple[str, ...]:
        """The waiting runs in order."""
        return tuple(self._waiting)

    def taken(self, host: str) -> set[Slot]:
        """Return the used slots of a host."""
        places = (place for slots in self._running.values() for place in slots)
        return {slot for name, slot in places if name == host}
