"""Selects the streams of workers to print, and makes their labels. Pure."""

from __future__ import annotations

from ...common.wording import counted
from ...resources.ranges import runs_of, show_slots
from ...specs.policies import can_fold

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ...specs.job import JobSpec
    from ...specs.plan import Node


LONGEST = 40
"""Characters of hosts, or of ranks, in a label of several ranks; longer lists are counted."""


class OutputFilter:
    """Applies one job's output policy to its workers."""

    def __init__(self, spec: JobSpec) -> None:
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
        """Return the label of a worker's lines."""
        return self._policy.prefix.format(
            host=node.host.name,
            rank=rank,
            local_rank=local_rank,
            node_rank=node.node_rank,
            job=self._job_id,
            role=self._role,
        )

    @property
    def can_fold(self) -> bool:
        """True if `joint_label` can name several ranks."""
        return can_fold(self._policy.prefix)

    def joint_label(self, workers: Sequence[tuple[Node, int]]) -> str:
        """Return the label of a line of several workers, given as node and rank, in order."""
        if not workers:
            return ""
        if len(workers) == 1:
            ((node, rank),) = workers
            return self.label(node, rank, node.local_rank(rank))
        return self._policy.prefix.format(
            host=_hosts([*dict.fromkeys(node.host.name for node, _ in workers)]),
            rank=_numbers((rank for _, rank in workers), "rank"),
            local_rank=_numbers((node.local_rank(rank) for node, rank in workers), "rank"),
            node_rank=_numbers((node.node_rank for node, _ in workers), "node"),
            job=self._job_id,
            role=self._role,
        )

    def workers(self, nodes: Iterable[Node]) -> list[tuple[Node, int]]:
        """Return the workers of these nodes that are printed, as node and rank, in order."""
        return [
            (node, rank)
            for node in nodes
            for rank in node.ranks
            if self.shown(rank, node.local_rank(rank))
        ]


def _hosts(names: Sequence[str]) -> str:
    runs = runs_of(names)
    text = ",".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else run[0] for run in runs)
    return text if len(text) <= LONGEST else counted(len(names), "host")


def _numbers(numbers: Iterable[int], noun: str) -> str:
    distinct = sorted({*numbers})
    text = show_slots(distinct)
    return text if len(text) <= LONGEST else counted(len(distinct), noun)
