"""Spare nodes: nodes of a job without a role, which replace lost nodes of roles. Pure."""

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
    """The spare nodes of a job."""

    def __init__(
        self,
        hosts: Iterable[Host],
        plans: Iterable[Plan],
        *,
        lost: IsLost,
        doubtful: IsLost = lambda _: False,
    ) -> None:
        """Start with the hosts that are in no plan.

        Args:
            hosts: all hosts of the job.
            plans: the plans of the roles.
            lost: returns whether the node with this name is lost.
            doubtful: returns whether the node may be lost; such a spare is the last choice.
        """
        used = {node.host.name for plan in plans for node in plan.nodes}
        self._free = [host for host in hosts if host.name not in used]
        self._in_place_of: dict[str, Host] = {}
        self._lost, self._doubtful = lost, doubtful

    def has(self, name: str) -> bool:
        """Return whether the node with this name is a spare that no role uses."""
        return name in {host.name for host in self._free}

    def replace(self, plan: Plan, only: str = "") -> tuple[Plan, dict[str, str]]:
        """Return a plan with spares in place of lost nodes, and the spare of each lost node.

        A spare uses the slots with the numbers of the lost node. Roles that have lost one node get
        one spare for it. A lost node without a spare stays in the plan. With `only`, no other node
        is replaced.
        """
        hosts = [node.host for node in plan.nodes]
        lost = [one for one in hosts if self._lost(one.name) and only in {"", one.name}]
        found = {host.name: self._spare(host) for host in lost}
        moved = {name: spare for name, spare in found.items() if spare is not None}
        if not moved:
            return plan, {}
        hosts = [moved.get(host.name, host) for host in hosts]
        return plan._replace(nodes=lay_out(hosts)), {name: to.name for name, to in moved.items()}

    def moves(self, plan: Plan) -> bool:
        """Return whether `replace` would replace a lost node of a plan."""
        hosts = [node.host for node in plan.nodes if self._lost(node.host.name)]
        return any(self._choice(host)[1] is not None for host in hosts)

    def _spare(self, host: Host) -> Host | None:
        """Return the spare for a lost node, with the slots to use; None without a spare."""
        last, spare = self._choice(host)
        if spare is None:
            return None
        if spare in self._free:
            self._free.remove(spare)
            self._in_place_of[last] = spare
        return spare._replace(slots=spare.slots if host.slots is None else host.slots)

    def _choice(self, host: Host) -> tuple[str, Host | None]:
        """Return the last node that stood in for a lost one, and the next; None without a spare.

        Spares may be lost, too; all roles on a lost node get one spare for it.
        """
        last, former = host.name, self._in_place_of.get(host.name)
        while former is not None and self._lost(former.name):
            last, former = former.name, self._in_place_of.get(former.name)
        candidates = sorted(self._free, key=lambda one: self._doubtful(one.name))
        candidates = candidates if former is None else [former]
        return last, next((one for one in candidates if self._fits(one, host)), None)

    def _fits(self, spare: Host, host: Host) -> bool:
        wanted = {*all_devices(host.slots or ())}
        has_slots = spare.slots is None or wanted <= {*all_devices(spare.slots)}
        return has_slots and not self._lost(spare.name)
