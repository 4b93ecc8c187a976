"""Cores for the workers: planned within the permitted ones, then bound.

Cores need only an affinity call before a worker's program starts. A memory policy needs numactl in
front of the program, because the standard library has no call for it. A worker forked from a
preloader sets the policy itself.
"""

from __future__ import annotations

import os
import sys
from collections import Counter

from ...node.machine.cores import WorkerCores, share, unbound

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ...specs.policies import BindingPolicy
    from .node_plan import BindingPlan


def check(
    environ: Mapping[str, str], policy: BindingPolicy, device_nodes: Sequence[int | None] = (None,)
) -> str:
    """Return a note about variables that also place threads, or "".

    Raises:
        UsageError: cores cannot be bound as requested here.
    """
    from . import node_conflicts as conflicts

    _plan(policy, device_nodes)
    return conflicts.conflicts(environ) or ""


def bound(
    policy: BindingPolicy,
    device_nodes: Sequence[int | None],
    note: Callable[[str], None],
    *,
    devices: bool = False,
    cpus: float | None = None,
) -> list[WorkerCores]:
    """Return each worker's share; `note` is called with anything unexpected.

    Args:
        policy: the binding policy.
        device_nodes: the NUMA node of each worker's device, by local rank; None where there is
            no device or its node is not known.
        note: called with one line at a time.
        devices: whether workers have devices, even with unknown nodes.
        cpus: the number of CPUs that all workers may use at a time: a quota may permit fewer than
            this process's affinity. None for no quota.

    Raises:
        UsageError: cores cannot be bound as requested here.
    """
    from . import node_numactl as numactl

    plan = _plan(policy, device_nodes, devices=devices)
    if not plan.bindings:
        return unbound(len(device_nodes), cpus)
    for line in plan.notes:
        note(line)
    prefixes = numactl.prefixes(plan.bindings, note)
    workers_on = Counter(one.cpus for one in plan.bindings)
    limited = cpus is not None and cpus < len(os.sched_getaffinity(0))
    most = share(cpus or 0, len(plan.bindings)) if limited else sys.maxsize
    return [
        WorkerCores(
            prefix,
            one.cpus,
            min(most, max(1, one.cores // workers_on[one.cpus])),
            (numactl.form(one), one.memory) if prefix else None,
        )
        for one, prefix in zip(plan.bindings, prefixes, strict=True)
    ]


def _plan(
    policy: BindingPolicy, device_nodes: Sequence[int | None], *, devices: bool = False
) -> BindingPlan:
    from . import node_conflicts as conflicts
    from . import node_plan as binding
    from . import node_topology as topology

    tree = topology.read_topology(allowed=os.sched_getaffinity(0))
    plan = binding.plan(tree, device_nodes, policy, devices=devices)
    line = conflicts.confinement(os.environ, len(tree.cores), len(device_nodes))
    return plan._replace(notes=(*plan.notes, line)) if line else plan
