"""A worker's share of the cores of its node."""

from __future__ import annotations

import os

from ...common.records import NamedTuple


class WorkerCores(NamedTuple):
    """One worker's share of the cores.

    Attributes:
        prefix: the command that sets the memory policy and the CPUs of the worker, to be put before
            the worker's own; () without such a policy.
        cpus: CPUs to stay on, () for all.
        threads: the number of threads for the worker.
        memory: the memory policy as numactl names it, and its NUMA nodes, or None.
    """

    prefix: tuple[str, ...]
    cpus: tuple[int, ...]
    threads: int
    memory: tuple[str, tuple[int, ...]] | None = None


def unbound(workers: int, cpus: float | None = None) -> list[WorkerCores]:
    """Return shares that bind nothing, with an equal number of threads for each worker.

    `cpus` is the number of CPUs for use at a time, None for all of this process's affinity.
    """
    usable = len(os.sched_getaffinity(0)) if cpus is None else cpus
    return [WorkerCores((), (), share(usable, workers))] * workers


def share(cpus: float, workers: int) -> int:
    """Return the number of threads for each worker, at least 1."""
    return max(1, int(cpus // max(1, workers)))
