"""The plan: the nodes of a job, their workers and ranks, and the program. Frozen and pure.

Nothing behind the plan reads the command line. A node whose slots are not known in advance (a plain
host) has `slots=None` until it has counted its devices and `with_slots` is called.
"""

from __future__ import annotations

from ..common.errors import UsageError
from ..common.records import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from .host import Host, Slot
    from .program import Program
    from .rendezvous import Rendezvous

ZIPPED = "z."
"""The beginning of compressed world info: base64 has no dots."""

URLSAFE = bytes.maketrans(b"+/", b"-_")
"""From the usual letters of base64 to those for URLs: the module `base64` starts slowly."""

LOCALHOST = "127.0.0.1"
"""The address at which the workers of a job on one node find its master."""

OWN_PYTHON = "dsrun"
"""The origin of the workers' Python if it is the one that dsrun itself runs on."""


class Worker(NamedTuple):
    """One training process."""

    rank: int
    local_rank: int
    device: Slot


class Share(NamedTuple):
    """One rank's share of a host, if every rank has its own node launcher.

    Attributes:
        node_rank: the index of the host among the hosts.
        nodes: the number of hosts.
        local_rank: the index of this rank on the host.
        slots: all slots of the host that the job uses.
    """

    node_rank: int
    nodes: int
    local_rank: int
    slots: tuple[Slot, ...]


class Node(NamedTuple):
    """A host chosen for this job.

    Attributes:
        rank: the index in the hostfile's order, after the filters.
        first_rank: the rank of the first worker; None while an earlier node's slots are unknown.
        slots: the devices, one worker each; None while unknown.
        share: set if the node is one rank's share of a host (`by_task`).
    """

    rank: int
    host: Host
    first_rank: int | None
    slots: tuple[Slot, ...] | None
    share: Share | None = None

    @property
    def node_rank(self) -> int:
        """The index of the host among the hosts."""
        return self.share.node_rank if self.share else self.rank

    def local_rank(self, rank: int) -> int:
        """Return the local rank of one of this node's ranks."""
        return rank - (self.first_rank or 0) + (self.share.local_rank if self.share else 0)

    @property
    def ranks(self) -> range:
        """The ranks of the node's workers; empty while its slots or ranks are unknown."""
        first = self.first_rank
        return range(0) if first is None else range(first, first + len(self.slots or ()))

    def workers(self) -> Iterator[Worker]:
        """Yield the workers of this node; none while its slots or ranks are unknown."""
        if self.slots is None or self.first_rank is None:
            return
        for rank, slot in enumerate(self.slots, self.first_rank):
            yield Worker(rank, self.local_rank(rank), slot)


class Plan(NamedTuple):
    """One job: its nodes in rank order, and the program that they run.

    Attributes:
        launcher: the name of the backend.
        master_addr: the user's address of node 0; None to choose one at the start.
        master_port: the user's port; None to choose a free port on node 0.
        rendezvous: set if torch's rendezvous is used: the plan holds this node only, with ranks
            from 0 until torch has assigned them.
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
    """Return the nodes in the hosts' order, with ranks as far as slots are counted."""
    nodes = []
    first: int | None = 0
    for rank, host in enumerate(hosts):
        nodes.append(Node(rank, host, first, host.slots, None))
        first = None if first is None or host.slots is None else first + len(host.slots)
    return tuple(nodes)


def with_slots(plan: Plan, counts: Mapping[int, int]) -> Plan:
    """Return the plan with the slots of every node.

    Args:
        plan: a plan; some of its nodes may have no slots yet.
        counts: the number of slots of each such node, by node rank.
    """
    hosts = [
        node.host._replace(slots=tuple(range(counts[node.rank])))
        if node.slots is None
        else node.host
        for node in plan.nodes
    ]
    return plan._replace(nodes=lay_out(hosts))


def by_task(plan: Plan) -> Plan:
    """Return the plan with one node for every rank, for an engine that starts one task per rank.

    Raises:
        UsageError: the number of ranks on a host is unknown.
    """
    nodes = [_task(plan, node, worker) for node in plan.nodes for worker in _known(node)]
    return plan._replace(nodes=tuple(nodes))


def _known(node: Node) -> list[Worker]:
    workers = list(node.workers())
    if not workers:
        raise UsageError(
            f"--rank_per_task: the number of ranks on {node.host.name} is not known; give its"
            " slots in the hostfile, or --num_gpus N"
        )
    return workers


def _task(plan: Plan, node: Node, worker: Worker) -> Node:
    share = Share(node.rank, len(plan.nodes), worker.local_rank, node.slots or ())
    return Node(worker.rank, node.host, worker.rank, (worker.device,), share)


class Origin(NamedTuple):
    """The origin of a plan, as text for the user.

    Attributes:
        source: the source of the hosts.
        choice: the launcher, and why it was chosen.
        notes: lines for the user, printed at the start and in a dry run.
        quiet: whether hosts and launcher are the defaults, and not worth a message.
        python: the origin of the workers' Python: `--python`, `--venv_script`, `VIRTUAL_ENV`,
            `CONDA_PREFIX`, `.venv`, or `dsrun` for dsrun's own.
    """

    source: str = "this program"
    choice: str = ""
    notes: tuple[str, ...] = ()
    quiet: bool = False
    python: str = OWN_PYTHON

    @property
    def words(self) -> str:
        """Hosts and launcher in one line."""
        return f"hosts: {self.source}; launcher: {self.choice}"


def encode_world(world: Mapping[str, Sequence[Slot]], longest: int = 64 * 1024) -> str:
    """Return world info as urlsafe base64 of JSON, as DeepSpeed encodes it.

    Above 64 KiB it is compressed first and begins with `z.`: an argument is limited to 128 KiB on
    Linux (execve(2), MAX_ARG_STRLEN), which about 3,000 hosts with 8 devices would exceed.
    `resources.world_info` decodes it.

    Args:
        world: the devices of each host; hosts in node rank order, devices in local rank order.
        longest: length above which the result is compressed.
    """
    import json
    from binascii import b2a_base64

    lists = {host: [*slots] for host, slots in world.items()}
    data = json.dumps(lists, separators=(",", ":")).encode()
    plain = b2a_base64(data, newline=False).translate(URLSAFE).decode()
    if len(plain) <= longest:
        return plain
    import zlib

    return ZIPPED + b2a_base64(zlib.compress(data, 9), newline=False).translate(URLSAFE).decode()
