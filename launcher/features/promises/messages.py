"""The questions of `dsrun-check --promises` to nodes."""

from __future__ import annotations

from ...common.records import NamedTuple

WORKER = "worker_program.py"
"""The program of the stand-ins, beside this file and in the folder of each node."""


class LookAsk(NamedTuple):
    """A question about a job.

    Attributes:
        job: its id.
        owners: its node launchers and guards on all nodes, as workers name them.
        seconds: the time to wait until nothing is left; 0 to look once.
        end: whether to kill processes that are left then.
    """

    job: str
    owners: tuple[str, ...] = ()
    seconds: float = 0.0
    end: bool = False
