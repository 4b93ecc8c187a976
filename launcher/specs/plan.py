"""The plan: which nodes, which workers, which ranks, running what. Frozen and pure.

Nothing after the plan reads the command line again. A node whose slots are not known beforehand (a
plain host) has `slots=None` until `settle` is told what the node itself has found.
"""

from __future__ import annotations

from ..common.errors import UsageError
from ..common.values import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from .host import Host, Slot
    from .program import Program
    from .rendezvous import Rendezvous


class Worker(NamedTuple):
    """One training process."""

    rank: int
    local_rank: int
    device: Slot


class Share(NamedTuple):
    """One rank's part of a host, where every rank has a node launcher of its own.

    Attributes:
        node_rank: the host's place among the hosts.
        nodes: how many hosts there are.
        local_rank: this rank's place on the host.
        slots: all that the job has of the host.
    """

    node_rank: int
    nodes: int
    local_rank: int
    slots: tuple[Slot, ...]


class Node(NamedTuple):
    """A host chosen for this job.

    Attributes:
        rank: its place in the hostfile's order, after the filters.
        first_rank: the rank of its first worker; None while an earlier node's slots are unknown.
        slots: its devices, one worker each; None while unknown.
        share: set where this is one rank's part of a host (`by_task`).
    """

    rank: int
    host: Host
    first_rank: int | None
    slots: tuple[Slot, ...] | None
    share: Share | None = None

    @property
    def node_rank(self) -> int:
        """The host's place among the hosts."""
        return self.share.node_rank if self.share else self.rank

    def local_rank(self, rank: int) -> int:
        """Return the place on its host of one of this node's ranks."""
        return rank - (self.first_rank or 0) + (self.share.local_rank if self.share else 0)

    def workers(self) -> Iterator[Worker]:
        """Yield the workers of this node; none while its slots or ranks are unknown."""
        if self.slots is None or self.first_rank is None:
            return
        for rank, slot in enumerate(self.slots, self.first_rank):
            yield Worker(rank, self.local_rank(rank), slot)


class Plan(NamedTuple):
    """One job: its nodes in rank order, and what they run.

    Attributes:
        launcher: the name of the backend.
        master_addr: as the user gave it, or None: chosen among node 0's addresses at the start.
        master_port: as the user gave it, or None: a free one, chosen on node 0.
        rendezvous: set where torch brings the nodes together: this is one of them, and its ranks
            are numbered from 0 as long as torch has not said which it has.
    """

    nodes: tuple[Node, ...]
    program: Program
    launcher: str
    master_addr: str | None
    master_port: int | None
    rendezvous: Rendezvous | None = None

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


def by_task(plan: Plan) -> Plan:
    """Return the plan with one node for every rank, for an engine that starts one task a rank.

    Raises:
        UsageError: it is not known how many ranks a host has.
    """
    nodes = [_task(plan, node, worker) for node in plan.nodes for worker in _known(node)]
    return plan._replace(nodes=tuple(nodes))


def _known(node: Node) -> list[Worker]:
    workers = list(node.workers())
    if not workers:
        raise UsageError(
            f"--rank_per_task: how many ranks on {node.host.name}? Give its slots in the hostfile,"
            " or --num_gpus N"
        )
    return workers


def _task(plan: Plan, node: Node, worker: Worker) -> Node:
    share = Share(node.rank, len(plan.nodes), worker.local_rank, node.slots or ())
    return Node(worker.rank, node.host, worker.rank, (worker.device,), share)
