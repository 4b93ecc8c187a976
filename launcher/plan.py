"""The plan: which nodes, which workers, which ranks, running what. Frozen and pure.

Nothing after the plan reads the command line again. A node whose slots are not known beforehand (a
plain host) has `slots=None` until `settle` is told what the node itself has found.
"""

from __future__ import annotations

from .values import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from .program import Program
    from .resources.host import Host, Slot


class Worker(NamedTuple):
    """One training process."""

    rank: int
    local_rank: int
    device: Slot


class Node(NamedTuple):
    """A host chosen for this job.

    Attributes:
        rank: its place in the hostfile's order, after the filters.
        first_rank: the rank of its first worker; None while an earlier node's slots are unknown.
        slots: its devices, one worker each; None while unknown.
    """

    rank: int
    host: Host
    first_rank: int | None
    slots: tuple[Slot, ...] | None

    def workers(self) -> Iterator[Worker]:
        """Yield the workers of this node; none while its slots or ranks are unknown."""
        if self.slots is None or self.first_rank is None:
            return
        for local_rank, slot in enumerate(self.slots):
            yield Worker(self.first_rank + local_rank, local_rank, slot)


class Plan(NamedTuple):
    """One job: its nodes in rank order, and what they run.

    Attributes:
        launcher: the name of the backend.
        master_addr: as the user gave it, or None: chosen among node 0's addresses at the start.
        master_port: as the user gave it, or None: a free one, chosen on node 0.
    """

    nodes: tuple[Node, ...]
    program: Program
    launcher: str
    master_addr: str | None
    master_port: int | None

    @property
    def world_size(self) -> int | None:
        """The number of workers, or None while some node's slots are unknown."""
        last = self.nodes[-1]
        if last.first_rank is None or last.slots is None:
            return None
        return last.first_rank + len(last.slots)


def lay_out(hosts: Sequence[Host]) -> tuple[Node, ...]:
    """Return the nodes in the hosts' order, ranks counted as far as the slots are known."""
    nodes = []
    first: int | None = 0
    for rank, host in enumerate(hosts):
        nodes.append(Node(rank, host, first, host.slots))
        first = None if first is None or host.slots is None else first + len(host.slots)
    return tuple(nodes)


def settle(plan: Plan, counts: Mapping[int, int]) -> Plan:
    """Return the plan with every node's slots known.

    Args:
        plan: a plan, some of whose nodes may have no slots yet.
        counts: how many slots each such node has, by node rank.
    """
    hosts = [
        node.host._replace(slots=tuple(range(counts[node.rank])))
        if node.slots is None
        else node.host
        for node in plan.nodes
    ]
    return plan._replace(nodes=lay_out(hosts))
