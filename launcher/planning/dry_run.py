"""The plan as a table or as JSON: what `--dry_run` prints. Pure."""

from __future__ import annotations

import json
import shlex

from ..resources import world_info
from ..resources.ranges import show_slots

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..specs.environment import Travel
    from ..specs.plan import Node, Plan

    Commands = Sequence[tuple[str, list[str]]]

ROWS = 64
"""Nodes shown in the table; the rest are counted."""

MASK = "***"


def as_json(plan: Plan, commands: Commands, travel: Travel, notes: Sequence[str] = ()) -> str:
    """Return the plan as one JSON object; `world_size` is null while a node's slots are unknown.

    With a `rendezvous` it is null as well, and ranks are counted from 0 on this machine: torch says
    later which they are.
    """
    program = plan.program
    return json.dumps(
        {
            "launcher": plan.launcher,
            "master_addr": plan.master_addr,
            "master_port": plan.master_port,
            "world_size": None if plan.rendezvous else plan.world_size,
            "nodes": [_node_json(node) for node in plan.nodes],
            **({"rendezvous": plan.rendezvous._asdict()} if plan.rendezvous else {}),
            "program": program.argv(program.python or "python", 0),
            "environment": sorted(travel.values),
            "withheld": list(travel.withheld),
            **({"notes": list(notes)} if notes else {}),
            "world_info": _world_info(plan),
            "commands": [{"host": host, "argv": argv} for host, argv in commands],
        }
    )


def _world_info(plan: Plan) -> str | None:
    """Return the hosts and slots for `launch --world_info`, None while some are unknown."""
    world = {node.host.name: node.slots for node in plan.nodes if node.slots is not None}
    return world_info.encode(world) if len(world) == len(plan.nodes) else None


def _node_json(node: Node) -> dict[str, object]:
    first, slots = node.first_rank, node.slots
    workers = (
        None
        if slots is None or first is None
        else [
            {"rank": first + local, "local_rank": local, "device": slot}
            for local, slot in enumerate(slots)
        ]
    )
    return {"node_rank": node.rank, "host": node.host.name, "workers": workers}


def as_table(
    plan: Plan,
    source: str,
    choice: str,
    commands: Commands,
    travel: Travel,
    workdir: str,
    notes: Sequence[str] = (),
) -> str:
    """Return the plan for a person to read; `source` and `choice` are the arrangement's."""
    program = plan.program.argv(plan.program.python or "python", 0)
    facts = [
        ("hosts", source),
        ("launcher", choice),
        ("workers", _workers(plan)),
        ("master", _master(plan)),
        ("program", shlex.join(program)),
        ("folder", workdir),
        *(("note", note) for note in notes),
    ]
    width = max(len(name) for name, _ in facts)
    head = [f"{name:<{width}}  {text}" for name, text in facts]
    return "\n".join([*head, "", *_nodes(plan), "", *_variables(travel), "", *_commands(commands)])


def _master(plan: Plan) -> str:
    if plan.rendezvous is not None:
        met = plan.rendezvous
        return f"as torch says, and the ranks: {met.words}, --rdzv_id {met.run_id}, {met.nodes}"
    return f"{plan.master_addr or 'found at the start'}:{plan.master_port or 'a free port'}"


def _workers(plan: Plan) -> str:
    count = "as many as the nodes have" if plan.world_size is None else str(plan.world_size)
    return f"{count} on {len(plan.nodes)} node{'' if len(plan.nodes) == 1 else 's'}"


def _nodes(plan: Plan) -> list[str]:
    rows = [("node", "host", "ranks", "devices")]
    rows += [_node_row(node) for node in plan.nodes[:ROWS]]
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    lines = ["  ".join(f"{c:<{w}}" for c, w in zip(r, widths, strict=True)).rstrip() for r in rows]
    rest = len(plan.nodes) - ROWS
    return [*lines, *([f"... and {rest} more nodes (--json shows all)"] if rest > 0 else [])]


def _node_row(node: Node) -> tuple[str, str, str, str]:
    if node.slots is None:
        return str(node.rank), node.host.name, "?", "all it has"
    ranks = "?"
    if node.first_rank is not None:
        last = node.first_rank + len(node.slots) - 1
        ranks = f"{node.first_rank}-{last}" if last > node.first_rank else f"{last}"
    return str(node.rank), node.host.name, ranks, show_slots(node.slots)


def _variables(travel: Travel) -> list[str]:
    sent = [f"  {name}={_shown(name, travel)}" for name in sorted(travel.values)]
    lines = ["variables that travel:", *(sent or ["  none"])]
    if travel.withheld:
        names = ", ".join(travel.withheld)
        lines.append(f"not sent, they look like secrets (--export NAME sends one): {names}")
    return lines


def _shown(name: str, travel: Travel) -> str:
    value = MASK if name in travel.secret else travel.values[name]
    return shlex.quote(value if len(value) <= 70 else f"{value[:67]}...")


def _commands(commands: Commands) -> list[str]:
    shown: dict[str, list[str]] = {}
    for host, argv in commands:
        shown.setdefault(shlex.join(argv), []).append(host)
    lines = ["commands:"]
    for text, hosts in list(shown.items())[:ROWS]:
        lines += [f"  {', '.join(hosts[:5])}{' ...' if len(hosts) > 5 else ''}:", f"    {text}"]
    return lines
