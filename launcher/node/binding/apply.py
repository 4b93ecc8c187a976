"""Cores for the workers: planned within what is allowed, then bound.

An affinity call before a worker's program starts is all that cores need. A rule for memory needs
numactl in front of the program, since the standard library has no call for it.
"""

from __future__ import annotations

import os
from collections import Counter

from ...common.values import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ...specs.binding_policy import Manner
    from .plan import Plan


class Share(NamedTuple):
    """One worker's share of the cores.

    Attributes:
        prefix: the command that puts it into effect, before the worker's own.
        cpus: CPUs to set by an affinity call instead, () for none.
        threads: how many threads are worth having there.
    """

    prefix: tuple[str, ...]
    cpus: tuple[int, ...]
    threads: int


def check(environ: Mapping[str, str], manner: Manner, seats: Sequence[int | None] = (None,)) -> str:
    """Return a line about variables that also place threads, or "".

    Raises:
        UsageError: cores cannot be bound as asked here.
    """
    from . import conflicts

    _plan(manner, seats)
    return conflicts.conflicts(environ) or ""


def unbound(workers: int) -> list[Share]:
    """Return shares that bind nothing: every worker may use the threads that fall to it."""
    threads = max(1, len(os.sched_getaffinity(0)) // max(1, workers))
    return [Share((), (), threads)] * workers


def bound(
    manner: Manner,
    seats: Sequence[int | None],
    path: str,
    note: Callable[[str], None],
    *,
    devices: bool = False,
) -> list[Share]:
    """Return each worker's share; `note` is told what is not as one would expect.

    Args:
        manner: how to bind.
        seats: the NUMA node of each worker's device, by local rank; None where there is no device
            or its node is not known.
        path: folders to look for numactl in.
        note: takes one line each.
        devices: workers have devices, whether or not their nodes are known.

    Raises:
        UsageError: cores cannot be bound as asked here.
    """
    from . import numactl

    plan = _plan(manner, seats, devices=devices)
    if not plan.bindings:
        return unbound(len(seats))
    for line in plan.notes:
        note(line)
    prefixes = numactl.prefixes(plan.bindings, path, note)
    workers_on = Counter(one.cpus for one in plan.bindings)
    return [
        Share(prefix, () if prefix else one.cpus, max(1, one.cores // workers_on[one.cpus]))
        for one, prefix in zip(plan.bindings, prefixes, strict=True)
    ]


def _plan(manner: Manner, seats: Sequence[int | None], *, devices: bool = False) -> Plan:
    from . import conflicts, topology
    from . import plan as binding

    tree = topology.read_topology(allowed=os.sched_getaffinity(0))
    plan = binding.plan(tree, seats, manner, devices=devices)
    line = conflicts.confinement(os.environ, len(tree.cores), len(seats))
    return plan._replace(notes=(*plan.notes, line)) if line else plan
