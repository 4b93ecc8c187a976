"""How far an elastic job may shrink, grow and fail."""

from __future__ import annotations

from ..common.values import NamedTuple


class ElasticPolicy(NamedTuple):
    """What a job may go through; times in seconds.

    Attributes:
        least, most: nodes in a round.
        restarts: how often workers may be restarted after a failure.
        window: so many restarts are allowed within these; 0 for the whole job.
        uptime: a round must have lasted so long, or its failure is not worth a restart.
        final: exit codes that are not worth one either, those of signals as a shell has them.
        wait: how long too few nodes wait for more before the job ends.
        cool: how long a node takes no part after failures began there alone; 0 for never.
        notice: how long before a change that can wait the workers are told of it.
        patience: how long the nodes of a broken round may take until they are ready again.
        gain_delay: how long nodes that could join wait after the start of a round, unless one of
            its workers prints something before.
        notice_by: how they are told of it: a signal's name, or a file's path; "" for not at all.
    """

    least: int
    most: int
    restarts: int
    window: float = 0.0
    uptime: float = 0.0
    final: frozenset[int] = frozenset()
    wait: float = 0.0
    cool: float = 0.0
    notice: float = 0.0
    patience: float = 60.0
    notice_by: str = ""
    gain_delay: float = 0.0
