"""The messages of elastic jobs: the nodes' reports about their rounds.

They are apart from `messages`, because most jobs have no rounds.
"""

from __future__ import annotations

from ..common.records import NamedTuple
from ..specs.field_types import Port, Rank


class Join(NamedTuple):
    """READY: this node is ready for a round.

    Attributes:
        port: the port of the round's store if this node is the first one.
        probe: a port that listens until ROUND, for a PROBE of the other nodes. It may differ from
            `port`, as a fast worker could take a listener there for rank 0's store.
    """

    port: Port
    probe: Port


class Finished(NamedTuple):
    """FINISHED: all workers of this round on this node have ended with code 0.

    The node stays in the job until every member of the round has finished.
    """

    generation: int


class Ranks(NamedTuple):
    """RANKS: torch's rendezvous has formed a round, and the workers here are about to start.

    Attributes:
        first_rank: the first rank of the workers here; the other ranks follow it.
        node_rank: the index of this node among `nodes`.
        restarts: the number of restarts of workers after failures on this node.
    """

    first_rank: Rank
    world_size: Rank
    node_rank: Rank
    nodes: Rank
    master_addr: str
    master_port: Port
    restarts: int
    max_restarts: int


class AgentFailure(NamedTuple):
    """AGENT_FAILED: the agent of an elastic job on this node has ended with a failure.

    Attributes:
        reason: the reason in words; "" if workers failed and there is nothing to add.
        unusable: whether the node can never take part, and is not reached again.
    """

    reason: str
    unusable: bool = False
