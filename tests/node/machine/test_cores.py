"""The threads of workers that are not bound."""

from __future__ import annotations

import os

import pytest

from dsrun.launcher.node.machine.cores import WorkerCores, unbound


@pytest.mark.parametrize(
    ("workers", "cpus", "threads"),
    [(1, 0.5, 1), (1, 1.0, 1), (1, 1.5, 1), (2, 1.5, 1), (1, 8.0, 8), (2, 5.0, 2)],
)
def test_threads_are_the_share_of_the_cpus_that_a_quota_leaves(
    workers: int, cpus: float, threads: int
) -> None:
    assert unbound(workers, cpus) == [WorkerCores((), (), threads)] * workers


def test_without_a_quota_the_affinity_of_this_process_counts() -> None:
    assert unbound(1)[0].threads == len(os.sched_getaffinity(0))
