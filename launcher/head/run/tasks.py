"""The Task of each node, sent in JOB."""

from __future__ import annotations

import os

from ... import __version__
from ...backends import BACKENDS
from ...common import system
from ...control.messages import Task
from ...resources import source
from ...specs.environment import to_wire
from ...specs.policies import SAMPLE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ...specs.job import JobSpec
    from ...specs.plan import Node
    from ...specs.program import Program

SETTLE = 0.15
"""Seconds within which a signal that Slurm sends to a job reaches all its nodes and the runner."""

LEASE = 15 / 16
"""Fraction of the heartbeat timeout after which a disconnected elastic node stops its workers.

A network may be down for half of the timeout: TCP takes as long again to notice that it is back.
The rest of the timeout must suffice to stop the workers of the node (`Task.last_grace`).
"""


def tasks(spec: JobSpec) -> Callable[[Node], Task]:
    """Return a function that makes the Task of a node; the common part is made only once."""
    common, lists = _common(spec), dict(spec.core_lists)
    common = common._replace(reach=_may_span_machines(spec))
    base = None if spec.environ is None else _wired_variables(spec.environ)
    rest, port = spec.binding.core_list, spec.plan.master_port or 0

    def task(node: Node) -> Task:
        first = node.rank == 0 and spec.plan.rendezvous is None
        return common._replace(
            base=base if base is not None and is_child(spec, node) else None,
            host=node.host.name,
            slots=node.host.slots,
            port=port if first else None,
            debug=common.debug if _may_debug(spec, node) else "",
            binding=spec.binding._replace(core_list=lists.get(node.host.name, rest)),
        )

    return task


def is_child(spec: JobSpec, node: Node) -> bool:
    """Return whether a node is this machine, and its node launcher a child of this process."""
    by_engine = BACKENDS[spec.plan.launcher].by_engine
    return not (by_engine or spec.backend.force_multi) and source.is_here(node.host)


def _common(spec: JobSpec) -> Task:
    """Return the part of the Task that is the same for all nodes."""
    workers, output, watched = spec.workers, spec.output, spec.supervision
    task = Task(
        dsrun=__version__,
        job_id=spec.job_id,
        host="",
        program=_wired(spec.plan.program),
        workdir=to_wire(spec.workdir),
        env=_environment(spec),
        slots=None,
        port=None,
        venv_script=to_wire(workers.venv_script),
        log_dir=to_wire(output.log_dir),
        log_private=output.log_private,
        log_layout=output.log_layout,
        grace=watched.grace,
        logs_specs=tuple(map(to_wire, output.logs_specs)),
        run_id=to_wire(workers.run_id),
        shard_queue=workers.shard_queue,
        preload=workers.preload,
        warm=workers.warm,
        one_device=workers.one_device,
        allow_background=watched.allow_background,
        keep_stdin=output.stdin,
        role=workers.role,
        by_engine=BACKENDS[spec.plan.launcher].by_engine,
        held=spec.held,
        payload=spec.payload,
        facts=spec.checks.quick,
        sample=spec.watch.sample or (SAMPLE if spec.hooks.metrics_file else 0.0),
        debug=system.urandom(16).hex() if spec.debug else "",
        debug_ranks=tuple(sorted(spec.debug.ranks)) if spec.debug else (),
        debug_wait=bool(spec.debug and spec.debug.wait),
        links=spec.watch.slow,
        hook=spec.watch.hook,
        settle=SETTLE if "SLURM_JOB_ID" in os.environ else 0.0,
    )
    return _with_rounds(task, spec)


def _with_rounds(task: Task, spec: JobSpec) -> Task:
    """Return a Task with what depends on whether the job has rounds."""
    rounds, heartbeat = spec.elastic is not None, spec.supervision.heartbeat_timeout
    rendezvous = spec.plan.rendezvous
    return task._replace(
        lease=heartbeat * (LEASE if rounds else 1.0),
        last_grace=min(task.grace, heartbeat * (1 - LEASE)) if rounds else task.grace,
        elastic=rounds or rendezvous is not None,
        torch_agent=_has_torch_agent(spec),
        notice=to_wire(spec.elastic.notice_by) if spec.elastic else "",
        rendezvous=rendezvous,
    )


def _has_torch_agent(spec: JobSpec) -> bool:
    """Return whether torch's agent decides when the workers start and stop."""
    by_torch = spec.elastic is not None and spec.elastic.agent == "torch"
    return by_torch or spec.plan.rendezvous is not None


def _may_debug(spec: JobSpec, node: Node) -> bool:
    """Return whether a node may have a rank that is debugged."""
    if spec.debug is None:
        return False
    ranks = [one.rank for one in node.workers()]
    settled = ranks and not (spec.elastic or spec.plan.rendezvous)
    return not settled or any(map(spec.debug.has, ranks))


def _may_span_machines(spec: JobSpec) -> bool:
    """Return whether nodes are to try each other's addresses: there may be several."""
    hosts = len({node.host.name for node in spec.plan.nodes})
    several = max(hosts, spec.elastic.most if spec.elastic else 1) > 1
    alone = spec.only is not None or spec.plan.rendezvous is not None
    return spec.checks.quick and several and not alone


def _environment(spec: JobSpec) -> dict[str, str]:
    handled = ",".join(spec.supervision.end_signals)
    sent = {"TORCHELASTIC_SIGNALS_TO_HANDLE": handled, **spec.travel.values}
    return _wired_variables(sent)


def _wired_variables(values: Mapping[str, str]) -> dict[str, str]:
    return {to_wire(name): to_wire(value) for name, value in values.items()}


def _wired(program: Program) -> Program:
    """Return the program with its texts encoded for the wire (`to_wire`)."""
    return program._replace(
        script=to_wire(program.script),
        args=tuple(map(to_wire, program.args)),
        python=to_wire(program.python) if program.python else None,
    )
