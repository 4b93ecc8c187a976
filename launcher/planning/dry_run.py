"""A job as a table or as JSON: the output of `--dry_run`. Pure."""

from __future__ import annotations

import json
import shlex

from ..backends.base import StartCommand
from ..backends.package.command import without_code
from ..common.entry import load
from ..common.formats import versioned
from ..common.wording import counted
from ..resources.ranges import show_slots
from ..specs.plan import OWN_PYTHON, encode_world
from ..specs.program import NOTHING
from .policy_rows import rows

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..specs.environment import ForwardedEnv
    from ..specs.job import JobSpec
    from ..specs.plan import Node, Plan
    from . import json_types

ROWS = 64
"""Nodes shown in the table; the rest are counted."""

SHOWN = 5
"""Hosts named at a command of the table."""

CONTAINER = ".containers.plan:rows"
"""The function that returns the rows about a container."""

HOST = "HOST"
"""Stands in the table for the name of each host that a command is run for."""


def as_json(spec: JobSpec, commands: Sequence[StartCommand]) -> str:
    """Return the job as one JSON object; `world_size` is null while a node's slots are unknown.

    With a `rendezvous`, ranks are counted from 0 on this machine; if it joins several nodes,
    `world_size` is null as well: torch assigns the real ranks later.
    """
    return json.dumps(versioned("dry_run", fields(spec, commands)))


def _world_size(plan: Plan) -> int | None:
    alone = plan.rendezvous is None or plan.rendezvous.most == 1
    return plan.world_size if alone else None


def fields(spec: JobSpec, commands: Sequence[StartCommand]) -> json_types.PlanJson:
    """Return the plan as values."""
    plan = spec.plan
    made: json_types.PlanJson = {
        "launcher": plan.launcher,
        "master_addr": plan.master_addr,
        "master_port": plan.master_port,
        "world_size": _world_size(plan),
        "nodes": [_node(node, interpreter(spec)) for node in plan.nodes],
        "program": argv(spec),
        "environment": sorted(spec.travel.values),
        "withheld": spec.travel.withheld,
        "world_info": _world_info(plan),
        "commands": commands,
        "workdir": spec.workdir,
        "workers": spec.workers,
        "backend": spec.backend,
        "binding": spec.binding,
        "supervision": spec.supervision,
        "output": spec.output,
        "checks": spec.checks,
        "watch": spec.watch,
        "hooks": spec.hooks,
        "debug": spec.debug,
        "elastic": spec.elastic,
        "sync": spec.sync,
        "updates": spec.updates,
        "batches": spec.batches,
        "dial_in": spec.dial_in,
        "origin": spec.origin,
        "core_lists": dict(spec.core_lists),
    }
    if plan.rendezvous:
        made["rendezvous"] = plan.rendezvous
    if spec.origin.notes:
        made["notes"] = spec.origin.notes
    return made


def allocation_json(launcher: str, argv: Sequence[str], here: str) -> str:
    """Return the plan of a job whose nodes a scheduler chooses, with the command that asks it."""
    command = StartCommand(list(argv), [here])
    plan: json_types.AllocationJson = {"launcher": launcher, "nodes": None, "commands": [command]}
    return json.dumps(versioned("dry_run", plan))


def _world_info(plan: Plan) -> str | None:
    """Return the hosts and slots for `launch --world_info`, None if some are unknown."""
    world = {node.host.name: node.slots for node in plan.nodes if node.slots is not None}
    return encode_world(world) if len(world) == len(plan.nodes) else None


def argv(spec: JobSpec) -> list[str]:
    """Return the command of the first worker of a node, as far as known here."""
    program = spec.plan.program
    named = program.python or ("" if spec.workers.venv_script else program.project_python)
    return program.argv(named or "python", 0)


def interpreter(spec: JobSpec) -> str | None:
    """Return the workers' Python; None if each node finds it, or they run on none."""
    program = spec.plan.program
    if spec.backend.container is not None:
        return spec.backend.container.python
    if runs_none(spec) or (spec.workers.venv_script and not program.python):
        return None
    return program.python or program.project_python or spec.backend.python


def runs_none(spec: JobSpec) -> bool:
    """Return whether neither workers nor torch's agent run on a Python that dsrun chooses."""
    program, rendezvous = spec.plan.program, spec.plan.rendezvous
    return program.script == NOTHING or (program.no_python and rendezvous is None)


def python_row(spec: JobSpec) -> list[tuple[str, str]]:
    """Return the row about the workers' Python, if they run on one."""
    if runs_none(spec):
        return []
    origin = "dsrun's own" if spec.origin.python == OWN_PYTHON else spec.origin.python
    if spec.backend.container is not None:
        origin = "in the container"
    return [("python", f"{interpreter(spec) or 'found on each node'} ({origin})")]


def _node(node: Node, python: str | None) -> json_types.NodeJson:
    return {
        "node_rank": node.rank,
        "host": node.host.name,
        "first_rank": node.first_rank,
        "devices": node.slots,
        "python": python,
    }


def as_table(spec: JobSpec, commands: Sequence[StartCommand]) -> str:
    """Return the job as a table."""
    plan, origin = spec.plan, spec.origin
    facts = [
        ("hosts", origin.source),
        ("launcher", origin.choice),
        ("workers", _workers(plan)),
        ("master", _master(spec)),
        ("program", shlex.join(argv(spec))),
        *python_row(spec),
        ("folder", spec.workdir),
        *rows(spec),
        *container_rows(spec),
        *(("note", note) for note in origin.notes),
    ]
    return "\n".join([*aligned(facts), "", *_nodes(spec), "", *sent(spec, commands)])


def container_rows(spec: JobSpec) -> list[tuple[str, str]]:
    """Return the rows about the container of a job or of a role."""
    if spec.backend.container is None:
        return []
    shown: list[tuple[str, str]] = load(CONTAINER)(spec.backend.container)
    return shown


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return rows of a table as lines."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(f"{c:<{w}}" for c, w in zip(r, widths, strict=True)).rstrip() for r in rows]


def sent(spec: JobSpec, commands: Sequence[StartCommand]) -> list[str]:
    """Return the variables and commands that go to the nodes, as lines."""
    return [*_variables(spec.travel), "", *_commands(commands)]


def _master(spec: JobSpec) -> str:
    plan = spec.plan
    if plan.rendezvous is not None:
        met = plan.rendezvous
        return (
            f"chosen by torch, as are the ranks: {met.words}, --rdzv_id {met.run_id}, {met.nodes}"
        )
    if spec.elastic is not None:
        return f"{plan.master_addr or 'the first node'} in each round, on a free port"
    if plan.master_addr is not None and plan.master_port is not None:
        return f"{plan.master_addr}:{plan.master_port}"
    port = "a free port" if plan.master_port is None else f"port {plan.master_port}"
    return f"{plan.master_addr or 'node 0'}, on {port}"


def _workers(plan: Plan) -> str:
    count = "one per device" if plan.world_size is None else str(plan.world_size)
    return f"{count} on {counted(len(plan.nodes), 'node')}"


def _nodes(spec: JobSpec) -> list[str]:
    plan, python = spec.plan, interpreter(spec) or ("-" if runs_none(spec) else "?")
    rows = [("node", "host", "ranks", "devices", "python")]
    rows += [(*_node_row(node), python) for node in plan.nodes[:ROWS]]
    rest = len(plan.nodes) - ROWS
    return [
        *aligned(rows),
        *([f"... and {rest} more nodes (--json shows all)"] if rest > 0 else []),
    ]


def _node_row(node: Node) -> tuple[str, str, str, str]:
    if node.slots is None:
        return str(node.rank), node.host.name, "?", "all"
    ranks = show_slots(node.ranks) or "?"
    return str(node.rank), node.host.name, ranks, show_slots(node.slots)


def _variables(travel: ForwardedEnv) -> list[str]:
    sent = [f"  {name}={_quoted(value)}" for name, value in sorted(travel.masked.items())]
    lines = ["variables sent to the nodes:", *(sent or ["  none"])]
    if travel.withheld:
        names = ", ".join(travel.withheld)
        lines.append(
            f"not sent because they look like secrets: {names} (send one with --export NAME)"
        )
    return lines


def _quoted(value: str) -> str:
    return shlex.quote(value if len(value) <= 70 else f"{value[:67]}...")


def _commands(commands: Sequence[StartCommand]) -> list[str]:
    shown = [line for command in commands[:ROWS] for line in _command(command)]
    return ["commands:", *shown]


def _command(command: StartCommand) -> list[str]:
    argv, hosts, at = command
    named = ", ".join(hosts[:SHOWN]) + (" ..." if len(hosts) > SHOWN else "")
    if at is not None and len(hosts) > 1:
        named = f"each {HOST} of {named}"
        argv = [*argv[:at], HOST, *argv[at + 1 :]]
    return [f"  {named}:", f"    {without_code(shlex.join(argv))}"]
