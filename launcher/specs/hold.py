"""Nodes that are kept for several jobs."""

from __future__ import annotations

from ..common.records import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .job import JobSpec


class HoldSpec(NamedTuple):
    """Nodes that are kept for several jobs.

    Attributes:
        name: the name that jobs use for it.
        job: the nodes and the settings to reach them, as a job that is never started; the job id
            and the policies are the hold's.
        idle_timeout: seconds without a run after which the nodes are released; 0 for never.
    """

    name: str
    job: JobSpec
    idle_timeout: float = 0.0
