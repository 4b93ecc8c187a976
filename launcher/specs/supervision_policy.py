"""How a job is watched and stopped."""

from __future__ import annotations

from ..common.values import NamedTuple


class SupervisionPolicy(NamedTuple):
    """How a job is watched and stopped; times in seconds.

    Attributes:
        connect_timeout: for a host to answer.
        start_timeout: for all nodes to be ready.
        heartbeat_timeout: of silence until a node, or the runner, counts as lost.
        grace: between the stop signal and SIGKILL, for all ranks at once.
        graceful_term_ok: exit 0 when all ranks exit 0 after a stop signal.
        allow_background: what the job leaves running after a clean end is left alone.
        end_signals: names of the signals that end the job.
        requeue_codes: exit codes with which a Slurm job goes back to the queue.
    """

    connect_timeout: float = 10.0
    start_timeout: float = 300.0
    heartbeat_timeout: float = 15.0
    grace: float = 30.0
    graceful_term_ok: bool = False
    allow_background: bool = False
    end_signals: tuple[str, ...] = ("SIGTERM", "SIGINT", "SIGHUP")
    requeue_codes: frozenset[int] = frozenset()
