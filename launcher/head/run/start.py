"""From a job's spec to its exit code: how its nodes are reached, and the job itself."""

from __future__ import annotations

import os

from ...backends import BACKENDS, LOCAL, load
from ...backends.base import Part
from ...common.errors import DsrunError, UsageError
from ...common.values import NamedTuple
from ...resources import source
from ...specs.plan import by_task

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ...backends.base import Backend
    from ...specs.backend import BackendSettings
    from ...specs.job import JobSpec
    from ...specs.plan import Node, Plan


class Start(NamedTuple):
    """What a job begins with.

    Attributes:
        plan: as its backends see it: one node for every rank, where they start ranks.
        parts: its backends, each with the nodes it starts.
    """

    plan: Plan
    parts: Sequence[Part]


def commands(spec: JobSpec) -> list[tuple[str, list[str]]]:
    """Return (host, argv) of every command that starts a job's node launchers, in rank order.

    Raises:
        UsageError: a backend's tool is not here, or it cannot start these nodes.
    """
    started = parts(_as_started(spec.plan, spec.settings), spec.settings, spec.only)
    found = [command for backend, nodes in started for command in backend.commands(nodes, None)]
    ranks = {node.host.name: node.rank for node in spec.plan.nodes}
    return sorted(found, key=lambda command: ranks[command[0]])


def launch(spec: JobSpec, start: Start | None = None) -> int:
    """Run a job and report on it; returns the exit code.

    Args:
        spec: the job.
        start: what `prepare` has returned for its plan, where that was called before.

    Raises:
        DsrunError: it cannot be started; nothing is left running.
    """
    start = start or prepare(spec.plan, spec.settings, spec.only)
    # All that is imported from here on is imported while the node launcher gets ready.
    from .lifecycle import run

    spec = spec._replace(plan=start.plan)
    try:
        code = run(spec, start, _later(spec))
    except DsrunError as error:
        _requeue(error.exit_code, spec)
        raise
    _requeue(code, spec)
    return code


def _requeue(code: int, spec: JobSpec) -> None:
    if code in spec.supervision.requeue_codes:
        from .requeue import requeue

        requeue(code, os.environ)


def prepare(plan: Plan, settings: BackendSettings, only: int | None = None) -> Start:
    """Return what a job of this plan begins with; this machine's own node launcher gets ready.

    Raises:
        UsageError: a backend's tool is not here, or it cannot start these nodes.
    """
    plan = _as_started(plan, settings)
    found = parts(plan, settings, only)
    for backend, nodes in found:
        backend.prepare(nodes)
    return Start(plan, found)


def _later(spec: JobSpec) -> Callable[[Node], Part]:
    """Return what has the backend for a node that the plan did not have: one of a kind for all.

    What such a backend cannot do, it says as the cause of that node's end.
    """
    made: dict[type[Backend], Backend] = {}

    def later(node: Node) -> Part:
        ((backend, nodes),) = _parts(spec.plan._replace(nodes=(node,)), spec.settings)
        return Part(made.setdefault(type(backend), backend), nodes)

    return later


def _as_started(plan: Plan, settings: BackendSettings) -> Plan:
    """Return the plan as the backend sees it: one node for every rank, where it starts ranks."""
    return by_task(plan) if settings.rank_per_task else plan


def parts(plan: Plan, settings: BackendSettings, only: int | None = None) -> list[Part]:
    """Return the backends of a plan, each with its nodes: this machine's own needs no ssh.

    With `only`, that node is this machine, and the others are none of our business.

    Raises:
        UsageError: a backend's tool is not here, or it cannot start these nodes.
    """
    found = _parts(plan, settings, only)
    for part in found:
        problem = part.backend.problem(part.nodes)
        if problem:
            raise UsageError(problem)
    return found


def _parts(plan: Plan, settings: BackendSettings, only: int | None = None) -> list[Part]:
    here, there = _split(plan, settings) if only is None else ([plan.nodes[only]], [])
    found = [Part(load(LOCAL, settings), here)] if here else []
    if there:
        found.append(Part(load(plan.launcher, settings), there))
    return found


def _split(plan: Plan, settings: BackendSettings) -> tuple[list[Node], list[Node]]:
    """Return the nodes that are this runner's own children, and those that its backend starts."""
    spec = BACKENDS[plan.launcher]
    if spec.by_engine:
        return [], list(plan.nodes)
    if spec.joins:
        return list(plan.nodes[:1]), list(plan.nodes[1:])
    if spec.this_machine:
        return list(plan.nodes), []
    here = [n for n in plan.nodes if not settings.force_multi and source.is_here(n.host)]
    return here, [node for node in plan.nodes if node not in here]
