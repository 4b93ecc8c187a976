"""The resources of each worker besides cores: devices, their NUMA nodes, and nearest NICs."""

from __future__ import annotations

from functools import cached_property

from ...control.messages import NodeBindings, WorkerBinding

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ....accelerator.hardware.nics import Nic
    from ....accelerator.hardware.pci import Function
    from ...specs.host import Slot
    from ...specs.policies import BindingPolicy
    from ..machine.devices import NodeDevices


class WorkerDevices:
    """The devices of workers by local rank; sysfs is read only as needed.

    Attributes:
        numa_nodes: the NUMA node of each worker's devices; None without devices, and if the node is
            unknown or not unique.
        devices: whether slots are devices, not only a count of workers.
    """

    def __init__(self, devices: NodeDevices, slots: Sequence[Slot], policy: BindingPolicy) -> None:
        """Look up the devices of the slots.

        Raises:
            ValueError: a slot is not one of the visible devices.
        """
        self._kind = devices.kind
        entries = devices.entries(slots)
        needed = policy.bind_to != "none" or policy.nics or policy.report
        self._entries = entries or ((),) * len(slots)
        every = [one for several in self._entries for one in several]
        self._addresses = devices.addresses(every) if needed else {}
        functions = devices.functions(self._addresses) if needed else {}
        # A worker with several devices uses the NIC of the first.
        self._functions = [functions.get(own[0]) if own else None for own in self._entries]
        self.numa_nodes = [_node_of([functions.get(one) for one in own]) for own in self._entries]
        self.devices = bool(every)
        self._policy = policy

    def variables(self, local: int, env: Mapping[str, str]) -> dict[str, str]:
        """Return the variables that select a worker's NIC, except those that the user has set."""
        nic = self._nics[local] if self._policy.nics else None
        if nic is None:
            return {}
        from ....accelerator.hardware import nics

        variables = nics.variables(nic, self._nics)
        return {name: value for name, value in variables.items() if name not in env}

    def bound(self, pids: Mapping[int, int], first_rank: int) -> NodeBindings:
        """Return the bindings of workers, given {local rank: pid}, without the kernel's values."""
        return NodeBindings(
            self._kind, tuple(self._placed(local, pid, first_rank) for local, pid in pids.items())
        )

    def _placed(self, local: int, pid: int, first_rank: int) -> WorkerBinding:
        own, nic = self._entries[local], self._nics[local]
        return WorkerBinding(
            rank=first_rank + local,
            pid=pid,
            device=",".join(own),
            address=",".join(filter(None, map(self._addresses.get, own))),
            node=self.numa_nodes[local],
            nic=nic.name if nic else "",
        )

    @cached_property
    def _nics(self) -> list[Nic | None]:
        """The NIC nearest to each worker's device; None without a known device."""
        from ....accelerator.hardware import nics

        chosen = iter(nics.assign(nics.read(), [one for one in self._functions if one]))
        return [next(chosen) if one else None for one in self._functions]


def _node_of(functions: Sequence[Function | None]) -> int | None:
    """Return the NUMA node of a worker's devices; None if unknown or not unique."""
    nodes = {one.node if one else None for one in functions}
    return nodes.pop() if len(nodes) == 1 else None
