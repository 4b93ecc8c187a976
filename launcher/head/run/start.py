"""From a plan to a finished job: what the nodes are told, how they are reached, how it is shown."""

from __future__ import annotations

import sys

from ... import backends
from ...backends.base import Part, Settings, package_root
from ...backends.local import Local
from ...common.errors import UsageError
from ...common.loop import Loop
from ...planning.elastic import is_elastic
from ...planning.folders import workdir
from ...resources import source
from ...specs.binding_policy import binds
from ...specs.plan import by_task

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ...backends.base import Backend
    from ...cli.options import Options
    from ...planning.planner import Arrangement
    from ...specs.plan import Node, Plan
    from ...specs.program import Program


def show(arrangement: Arrangement, options: Options) -> str:
    """Return what --dry_run prints.

    Raises:
        UsageError: the plan cannot be carried out as it stands.
    """
    from ...planning import dry_run
    from .lifecycle import settled

    plan = arrangement.plan
    started = _as_started(plan, options)
    split = parts(started, options)
    travel = settled(arrangement._replace(plan=started), options).travel
    commands = [command for backend, nodes in split for command in backend.commands(nodes, None)]
    commands.sort(key=_in_order(plan))
    if options.json:
        return dry_run.as_json(plan, commands, travel, arrangement.notes)
    told, folder = (arrangement.source, arrangement.choice), workdir(options)
    return dry_run.as_table(plan, *told, commands, travel, folder, arrangement.notes)


def _in_order(plan: Plan) -> Callable[[tuple[str, list[str]]], int]:
    ranks = {node.host.name: node.rank for node in plan.nodes}
    return lambda command: ranks[command[0]]


def launch(arrangement: Arrangement, options: Options, only: int | None = None) -> int:
    """Run the job of a plan and report on it; returns the exit code.

    Args:
        arrangement: the plan.
        options: what the user asked for.
        only: the one node rank that this process sees to, None for all.

    Raises:
        DsrunError: it cannot be started; nothing is left running.
    """
    loop = Loop()
    arrangement = arrangement._replace(plan=_as_started(arrangement.plan, options))
    split = parts(arrangement.plan, options, only)
    _warm(split, loop)
    # All that is imported from here on is imported while the node launcher gets ready.
    from .lifecycle import run, settled

    course = settled(arrangement, options)
    return run(course, arrangement, split, loop, options, _later(arrangement.plan, options))


def _later(plan: Plan, options: Options) -> Callable[[Node], Part]:
    """Return what has the backend for a node that the plan did not have: one of a kind for all.

    What such a backend cannot do, it says as the cause of that node's end.
    """
    made: dict[type[Backend], Backend] = {}

    def later(node: Node) -> Part:
        ((backend, nodes),) = _parts(plan._replace(nodes=(node,)), options)
        return Part(made.setdefault(type(backend), backend), nodes)

    return later


def _as_started(plan: Plan, options: Options) -> Plan:
    """Return the plan as the backend sees it: one node for every rank, where it starts ranks.

    Raises:
        UsageError: the backend starts no ranks, or it is not known how many.
    """
    if not options.rank_per_task:
        return plan
    if plan.launcher not in backends.ENGINES:
        able = ", ".join(name for name in backends.BACKENDS if name in backends.ENGINES)
        raise UsageError(f"--rank_per_task: {plan.launcher} starts no ranks; --launcher {able}")
    return by_task(plan)


def _warm(split: Sequence[Part], loop: Loop) -> None:
    """Start this machine's own node launcher now: it gets ready while the rest is imported.

    Raises:
        UsageError: the interpreter cannot be started.
    """
    for part in split:
        if isinstance(part.backend, Local):
            try:
                part.backend.warm(part.nodes, loop)
            except OSError as error:
                raise UsageError(f"--python {error.filename}: {error.strerror}") from None


def parts(plan: Plan, options: Options, only: int | None = None) -> list[Part]:
    """Return the backends of a plan, each with its nodes: this machine's own needs no ssh.

    With `only`, that node is this machine, and the others are none of our business.

    Raises:
        UsageError: a backend's tool is not here, or it cannot start these nodes.
    """
    found = _parts(plan, options, only)
    for part in found:
        problem = part.backend.problem(part.nodes)
        if problem:
            raise UsageError(problem)
    return found


def _parts(plan: Plan, options: Options, only: int | None = None) -> list[Part]:
    settings = _settings(plan.program, options)
    here, there = _split(plan, options) if only is None else ([plan.nodes[only]], [])
    found = [Part(backends.load("local", settings), here)] if here else []
    if there:
        name = plan.launcher
        found.append(Part(backends.load(name, settings), there))
    return found


def _split(plan: Plan, options: Options) -> tuple[list[Node], list[Node]]:
    if plan.launcher in backends.ENGINES:
        return [], list(plan.nodes)
    if plan.launcher == "none":
        return list(plan.nodes[:1]), list(plan.nodes[1:])
    if plan.launcher == "local":
        return list(plan.nodes), []
    here = [n for n in plan.nodes if not options.force_multi and source.is_here(n.host)]
    return here, [node for node in plan.nodes if node not in here]


def _settings(program: Program, options: Options) -> Settings:
    import shlex

    try:
        args = tuple(shlex.split(options.launcher_args))
    except ValueError as error:
        raise UsageError(f"--launcher_args {options.launcher_args!r}: {error}") from None
    return Settings(
        python=program.python or sys.executable,
        root=package_root(),
        args=args,
        port=options.ssh_port,
        connect_timeout=options.connect_timeout,
        keepalive=options.heartbeat_timeout / 3,
        accept_new_host_keys=options.accept_new_host_keys,
        path=options.launcher_path,
        bind=binds(options),
        rank_per_task=options.rank_per_task,
        elastic=is_elastic(options),
    )
