"""Nodes that are kept for several jobs."""

from __future__ import annotations

from ..common.values import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .job import JobSpec


class HoldSpec(NamedTuple):
    """Nodes that are kept for several jobs.

    Attributes:
        name: by which jobs name it.
        job: its nodes and how they are reached, as a job that is never started; its job id is that
            of the hold, and its policies are the hold's own.
        idle_timeout: seconds without a run after which the nodes are released; 0 for never.
    """

    name: str
    job: JobSpec
    idle_timeout: float = 0.0
