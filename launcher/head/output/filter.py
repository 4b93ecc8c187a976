"""Which output of which worker is printed, and with which label. Pure."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...specs.job import JobSpec
    from ...specs.plan import Node


class OutputFilter:
    """Applies one job's output policy to its workers."""

    def __init__(self, spec: JobSpec) -> None:
        """Prepare the filter for a job."""
        self._policy = spec.output
        self._job_id = spec.job_id
        self._role = spec.workers.role

    def shown(self, rank: int, local_rank: int) -> set[int]:
        """Return the streams (1, 2) of a worker that go to the console."""
        policy = self._policy
        other = policy.console_ranks and rank not in policy.console_ranks
        if other or (policy.local_ranks and local_rank not in policy.local_ranks):
            return set()
        return ({1, 2} - policy.redirects.of(local_rank)) | policy.tee.of(local_rank)

    def label(self, node: Node, rank: int, local_rank: int) -> str:
        """Return the text before each line of a worker."""
        return self._policy.prefix.format(
            host=node.host.name,
            rank=rank,
            local_rank=local_rank,
            node_rank=node.node_rank,
            job=self._job_id,
            role=self._role,
        )
