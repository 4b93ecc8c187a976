"""From a JobSpec to an exit code: choose the backends, then run the job."""

from __future__ import annotations

from functools import partial

from ...backends import BACKENDS, LOCAL, load
from ...backends.base import Part
from ...common.errors import UsageError
from ...common.records import NamedTuple
from ...resources import source
from ...specs.plan import by_task

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ...backends.base import Backend, StartCommand
    from ...specs.backend import BackendSettings
    from ...specs.job import JobSpec
    from ...specs.plan import Node, Plan
    from .control import MakePrograms

    BackendFor = Callable[[Node], Part]
    Conduct = Callable[["JobSpec", "PreparedStart", BackendFor, MakePrograms], int]


class PreparedStart(NamedTuple):
    """The plan and the prepared backends of a job.

    Attributes:
        plan: the job's plan; with one node per rank if the backend starts ranks.
        parts: the backends, each with the nodes it starts.
    """

    plan: Plan
    parts: Sequence[Part]


def commands(spec: JobSpec) -> list[StartCommand]:
    """Return all commands that start node launchers of a job, in the order of their first ranks.

    Raises:
        UsageError: a backend's tool is missing here, or it cannot start these nodes.
    """
    started = parts(_as_started(spec.plan, spec.settings), spec.settings, spec.only)
    unsorted = [command for backend, nodes in started for command in backend.commands(nodes, None)]
    ranks = {node.host.name: node.rank for node in spec.plan.nodes}
    return sorted(unsorted, key=lambda command: ranks[command.hosts[0]])


def launch(
    spec: JobSpec,
    start: PreparedStart | None = None,
    conduct: Conduct | None = None,
    programs: MakePrograms | None = None,
) -> int:
    """Run a job and report its end; return the exit code.

    Args:
        spec: the job.
        start: the result of `prepare`, if called before.
        conduct: runs the job; None for `launch.run`, which runs it in a terminal.
        programs: prepares the programs on a fleet; None for a job of one program.

    Raises:
        DsrunError: the job cannot be started; nothing is left running.
    """
    start = start or prepare(spec.plan, spec.settings, spec.only)
    # Imported only now, while this machine's node launcher starts up.
    from . import launch as own_fleet
    from .one_program import OneProgram

    spec = spec._replace(plan=start.plan)
    conduct, programs = conduct or own_fleet.run, programs or OneProgram
    job = partial(conduct, spec, start, backend_for(spec), programs)
    if not spec.supervision.requeue_codes:
        return job()
    from ...features.schedulers.runner_requeue import requeueing

    return requeueing(spec.supervision.requeue_codes, job)


def prepare(plan: Plan, settings: BackendSettings, only: int | None = None) -> PreparedStart:
    """Choose the backends of a plan, and start this machine's own node launcher.

    Raises:
        UsageError: a backend's tool is missing here, or it cannot start these nodes.
    """
    plan = _as_started(plan, settings)
    chosen = parts(plan, settings, only)
    for backend, nodes in chosen:
        backend.prepare(nodes)
    return PreparedStart(plan, chosen)


def backend_for(spec: JobSpec) -> Callable[[Node], Part]:
    """Return a factory of backends for nodes that join later; nodes of one kind share a backend.

    A backend that cannot start the node reports that as the cause of the node's end.
    """
    made: dict[type[Backend], Backend] = {}

    def part(node: Node) -> Part:
        ((backend, nodes),) = _parts(spec.plan._replace(nodes=(node,)), spec.settings)
        return Part(made.setdefault(type(backend), backend), nodes)

    return part


def _as_started(plan: Plan, settings: BackendSettings) -> Plan:
    """Return the plan as the backend starts it: one node per rank if the backend starts ranks."""
    return by_task(plan) if settings.rank_per_task else plan


def parts(plan: Plan, settings: BackendSettings, only: int | None = None) -> list[Part]:
    """Return the backends of a plan, each with its nodes; this machine's own node needs no ssh.

    `only` names the node on this machine, if the other nodes are started elsewhere.

    Raises:
        UsageError: a backend's tool is missing here, or it cannot start these nodes.
    """
    chosen = _parts(plan, settings, only)
    for part in chosen:
        problem = part.backend.problem(part.nodes)
        if problem:
            raise UsageError(problem)
    return chosen


def _parts(plan: Plan, settings: BackendSettings, only: int | None = None) -> list[Part]:
    local, remote = _split(plan, settings) if only is None else ([plan.nodes[only]], [])
    chosen = [Part(load(LOCAL, settings), local)] if local else []
    if remote:
        chosen.append(Part(load(plan.launcher, settings), remote))
    return chosen


def _split(plan: Plan, settings: BackendSettings) -> tuple[list[Node], list[Node]]:
    """Return the nodes that the runner starts as children, and those for the plan's backend."""
    spec = BACKENDS[plan.launcher]
    if spec.by_engine:
        return [], list(plan.nodes)
    if spec.joins:
        return list(plan.nodes[:1]), list(plan.nodes[1:])
    if spec.this_machine:
        return list(plan.nodes), []
    local: list[Node] = []
    remote: list[Node] = []
    for node in plan.nodes:
        here = not settings.force_multi and source.is_here(node.host)
        (local if here else remote).append(node)
    return local, remote
