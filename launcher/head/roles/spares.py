"""The nodes of a job without a role: they take the place of nodes that a role has lost. Pure."""

from __future__ import annotations

from ...specs.host import all_devices
from ...specs.plan import lay_out

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ...specs.host import Host
    from ...specs.plan import Plan

    IsLost = Callable[[str], bool]


class Spares:
    """Nodes that no role uses."""

    def __init__(self, hosts: Iterable[Host], plans: Iterable[Plan], *, lost: IsLost) -> None:
        """Begin with those of these hosts that no plan has.

        Args:
            hosts: all nodes of the job.
            plans: of its roles.
            lost: returns whether the node of this name is lost.
        """
        used = {node.host.name for plan in plans for node in plan.nodes}
        self._free = [host for host in hosts if host.name not in used]
        self._in_place_of: dict[str, Host] = {}
        self._lost = lost

    def replace(self, plan: Plan, only: str = "") -> tuple[Plan, dict[str, str]]:
        """Return a plan in which spare nodes stand for lost ones, and which for which.

        A spare has the slots with the same numbers. Roles that have lost the same node get the same
        spare. A lost node for which there is none stays in the plan, and all but `only` that one,
        if it is given.
        """
        hosts = [node.host for node in plan.nodes]
        lost = [one for one in hosts if self._lost(one.name) and only in {"", one.name}]
        found = {host.name: self._spare(host) for host in lost}
        moved = {name: spare for name, spare in found.items() if spare is not None}
        if not moved:
            return plan, {}
        hosts = [moved.get(host.name, host) for host in hosts]
        return plan._replace(nodes=lay_out(hosts)), {name: to.name for name, to in moved.items()}

    def _spare(self, host: Host) -> Host | None:
        """Return the node in place of a lost one, with the slots that are used there."""
        former = self._in_place_of.get(host.name)
        candidates = self._free if former is None or self._lost(former.name) else [former]
        spare = next((one for one in candidates if self._fits(one, host)), None)
        if spare is None:
            return None
        if spare in self._free:
            self._free.remove(spare)
        self._in_place_of[host.name] = spare
        return spare._replace(slots=spare.slots if host.slots is None else host.slots)

    def _fits(self, spare: Host, host: Host) -> bool:
        wanted = {*all_devices(host.slots or ())}
        has_slots = spare.slots is None or wanted <= {*all_devices(spare.slots)}
        return has_slots and not self._lost(spare.name)
