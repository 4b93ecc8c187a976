"""The NodeJob of each node, sent in JOB."""

from __future__ import annotations

import os

from ... import __version__
from ...backends import BACKENDS
from ...common import system
from ...control.messages import NodeJob
from ...resources import source
from ...specs.environment import each_text, to_wire
from ...specs.policies import SAMPLE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ...specs.job import JobSpec
    from ...specs.plan import Node

SETTLE = 0.15
"""Seconds within which a signal that Slurm sends to a job reaches all its nodes and the runner."""

LEASE = 15 / 16
"""Fraction of the heartbeat timeout after which a disconnected elastic node stops its workers.

The network may be down for half of the timeout, because TCP takes equally long to notice that it is
back. The rest of the timeout must suffice to stop the workers (`NodeJob.last_grace`).
"""


def tasks(spec: JobSpec) -> Callable[[Node], NodeJob]:
    """Return a function that makes the NodeJob of a node; the common part is made only once."""
    common, lists = _common(spec), dict(spec.core_lists)
    base = None if spec.environ is None else each_text(spec.environ, to_wire)
    rest, port = spec.binding.core_list, spec.plan.master_port or 0
    former, none = dict(spec.former_ports), (0,) * len(spec.ports)

    def task(node: Node) -> NodeJob:
        first = node.rank == 0 and spec.plan.rendezvous is None
        return common._replace(
            base=base if is_child(spec, node) and not spec.backend.container else None,
            host=node.host.name,
            slots=node.host.slots,
            port=port if first else None,
            debug_secret=common.debug_secret if _may_debug(spec, node) else "",
            binding=spec.binding._replace(core_list=lists.get(node.host.name, rest)),
            ports=dict(zip(spec.ports, former.get(node.host.name, none), strict=True)),
        )

    return task


def is_child(spec: JobSpec, node: Node) -> bool:
    """Return whether a node is this machine, with the node launcher a child of this process."""
    by_engine = BACKENDS[spec.plan.launcher].by_engine
    return not (by_engine or spec.backend.force_multi) and source.is_here(node.host)


def _common(spec: JobSpec) -> NodeJob:
    """Return a NodeJob with the fields that are equal on all nodes."""
    handled = ",".join(spec.supervision.end_signals)
    rounds, heartbeat = spec.elastic is not None, spec.supervision.heartbeat_timeout
    grace = spec.supervision.grace
    task = NodeJob(
        dsrun=__version__,
        job_id=spec.job_id,
        host="",
        program=spec.plan.program,
        workdir=spec.workdir,
        env={"TORCHELASTIC_SIGNALS_TO_HANDLE": handled, **spec.travel.values},
        slots=None,
        port=None,
        workers=spec.workers,
        supervision=spec.supervision,
        output=spec.output,
        watch=spec.watch,
        debug=spec.debug,
        elastic=spec.elastic,
        rendezvous=spec.plan.rendezvous,
        lease=heartbeat * (LEASE if rounds else 1.0),
        last_grace=min(grace, heartbeat * (1 - LEASE)) if rounds else grace,
        by_engine=BACKENDS[spec.plan.launcher].by_engine,
        rank_per_task=spec.backend.rank_per_task,
        held=spec.held,
        payload=spec.payload,
        facts=spec.checks.quick,
        reach=may_span_machines(spec),
        debug_secret=system.urandom(16).hex() if spec.debug else "",
        part=spec.role,
        sample=spec.watch.sample or (SAMPLE if spec.hooks.metrics_file else 0.0),
        settle=SETTLE if "SLURM_JOB_ID" in os.environ else 0.0,
    )
    return each_text(task, to_wire)


def _may_debug(spec: JobSpec, node: Node) -> bool:
    """Return whether a node may have a rank that --debug selects."""
    if spec.debug is None:
        return False
    ranks = [one.rank for one in node.workers()]
    settled = ranks and not (spec.elastic or spec.plan.rendezvous)
    return not settled or any(map(spec.debug.has, ranks))


def may_span_machines(spec: JobSpec) -> bool:
    """Return whether nodes should try each other's addresses: there may be several machines."""
    hosts = len({node.host.name for node in spec.plan.nodes})
    several = max(hosts, spec.elastic.most if spec.elastic else 1) > 1
    alone = spec.only is not None or spec.plan.rendezvous is not None
    return spec.checks.quick and several and not alone
