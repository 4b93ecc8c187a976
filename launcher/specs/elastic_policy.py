"""How far an elastic job may shrink, grow and fail."""

from __future__ import annotations

from ..common.values import NamedTuple


class ElasticPolicy(NamedTuple):
    """How far an elastic job may shrink, grow and fail; times in seconds.

    Attributes:
        least, most: the smallest and largest number of nodes in a round.
        restarts: how often workers may be restarted after a failure.
        window: the time in which `restarts` are counted; 0 for the whole job.
        uptime: there is no restart if a round fails sooner than this after its start.
        final: exit codes after which there is no restart; 128 + N for signal N.
        wait: how long to wait for more nodes when there are too few.
        cool: how long a node is excluded after consecutive failures began there; 0 for never.
        notice: how long before a change that can wait the workers are notified.
        patience: how long the nodes of a broken round may take to be ready again.
        gain_delay: how long nodes that could join wait after the start of a round, unless one of
            its workers prints something before.
        notice_by: how they are notified: a signal's name, or a file's path; "" for not at all.
        agent: what starts and stops the workers on each node: `dsrun` (the node launcher) or
            `torch` (torch's elastic agent).
        restart_on: classes of failures (`verdict.FailureClass`) that lead to a restart; none for
            all.
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
    agent: str = "dsrun"
    restart_on: frozenset[str] = frozenset()
