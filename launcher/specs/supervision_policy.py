"""How a job is watched and stopped."""

from __future__ import annotations

from ..common.values import NamedTuple


class SupervisionPolicy(NamedTuple):
    """How a job is watched and stopped.

    Attributes:
        connect_timeout: seconds for a host to answer.
        start_timeout: seconds for all nodes to be ready.
        heartbeat_timeout: seconds without a heartbeat after which a node, or the runner, is lost.
        grace: seconds between the stop signal and SIGKILL.
        graceful_term_ok: exit with 0 if all ranks exit with 0 after a stop signal.
        allow_background: processes that the job leaves behind after a clean end are not stopped.
        end_signals: names of the signals that end the job.
        requeue_codes: exit codes after which a Slurm job is requeued.
        no_requeue_code: the exit code of a job that would fail again if it were retried; 0 for the
            usual one.
    """

    connect_timeout: float = 10.0
    start_timeout: float = 300.0
    heartbeat_timeout: float = 15.0
    grace: float = 30.0
    graceful_term_ok: bool = False
    allow_background: bool = False
    end_signals: tuple[str, ...] = ("SIGTERM", "SIGINT", "SIGHUP")
    requeue_codes: frozenset[int] = frozenset()
    no_requeue_code: int = 0
