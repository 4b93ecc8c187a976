"""Which run has which slots of the held nodes, and which waits for them. Pure.

First come, first served: a run begins once its slots are free, unless an earlier one waits for some
of the same. Runs on disjoint slots are side by side, also on one node.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ...specs.host import Slot

    Places = Mapping[str, Sequence[Slot]]


class Schedule:
    """The slots in use, and those waited for.

    A run is known by a name of its own; it names its slots by the names of their hosts.
    """

    def __init__(self) -> None:
        self._running: dict[str, frozenset[tuple[str, Slot]]] = {}
        self._waiting: dict[str, frozenset[tuple[str, Slot]]] = {}

    def ask(self, run: str, places: Places) -> bool:
        """Give a run its slots, or let it wait for them; return whether it has them."""
        wanted = frozenset((host, slot) for host, slots in places.items() for slot in slots)
        if self.blockers(places):
            self._waiting[run] = wanted
            return False
        self._running[run] = wanted
        return True

    def blockers(self, places: Places) -> list[str]:
        """Return which runs have, or wait for, some of these slots, the first ones first."""
        wanted = {(host, slot) for host, slots in places.items() for slot in slots}
        known = {**self._running, **self._waiting}
        return [run for run, slots in known.items() if slots & wanted]

    def end(self, run: str) -> list[str]:
        """Take the slots of a run back, or let it wait no more; return the runs that begin now."""
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
        """The runs that wait, in their order."""
        return tuple(self._waiting)

    def taken(self, host: str) -> set[Slot]:
        """Return the slots of a host that are in use."""
        places = (place for slots in self._running.values() for place in slots)
        return {slot for name, slot in places if name == host}
