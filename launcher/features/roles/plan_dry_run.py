"""A job of several roles as a table or as JSON: the output of `--dry_run`. Pure."""

from __future__ import annotations

import json
import shlex

from ...common.formats import versioned
from ...planning import dry_run
from ...planning.policy_rows import rows
from ...resources.ranges import runs_of, show_slots, spell

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ...backends.base import StartCommand
    from ...specs.job import JobSpec
    from ...specs.plan import Node
    from ...specs.roles import Ready, RoleSpec, RolesSpec
    from . import plan_json_types as json_types

HEAD = ("role", "nodes", "slots", "workers", "ports", "after", "ready", "ends", "on failure")

SHOWN = 3
"""Groups of nodes with different slots that are shown for a role; the rest are counted."""


def as_json(spec: RolesSpec, commands: Sequence[StartCommand]) -> str:
    """Return the job as one JSON object: the whole job, and each role with its own job."""
    fields: json_types.RolesPlan = {
        "job": dry_run.fields(spec.job, commands),
        "order": order(spec),
        "roles": [_role(one) for one in spec.roles],
    }
    return json.dumps(versioned("dry_run_roles", fields))


def _role(role: RoleSpec) -> json_types.RoleJson:
    return {
        "name": role.name,
        "job": dry_run.fields(role.job, ()),
        "ends": role.ends,
        "after": role.after,
        "ready": role.ready,
        "ports": role.ports,
        "on_failure": role.on_failure,
        "max_restarts": role.max_restarts,
    }


def order(spec: RolesSpec) -> list[tuple[str, ...]]:
    """Return the roles in groups: each starts when those before it that it waits for are ready."""
    rest, groups = {one.name: {*one.after} for one in spec.roles}, list[tuple[str, ...]]()
    while rest:
        free = tuple(name for name, after in rest.items() if not after & rest.keys())
        groups.append(free)
        rest = {name: after for name, after in rest.items() if name not in free}
    return groups


def as_table(spec: RolesSpec, commands: Sequence[StartCommand]) -> str:
    """Return the job as a table of its roles, with the common part of the plan."""
    job = spec.job
    starts = ", then ".join(" and ".join(names) for names in order(spec))
    facts = [
        ("order", starts),
        ("hosts", job.origin.source),
        ("launcher", job.origin.choice),
        ("folder", job.workdir),
        *dry_run.container_rows(job),
        *rows(job),
        *(("note", note) for note in job.origin.notes),
    ]
    table = [HEAD, *(row for role in spec.roles for row in _rows(role))]
    own = [line for role in spec.roles for line in _own(role, job)]
    lines = [*dry_run.aligned(table), "", *dry_run.aligned(facts), "", *own]
    return "\n".join([*lines, *dry_run.sent(job, commands)])


def _own(role: RoleSpec, job: JobSpec) -> Iterator[str]:
    """Yield the lines about one role's own part of the plan."""
    facts = [("program", shlex.join(dry_run.argv(role.job))), *dry_run.python_row(role.job)]
    if role.job.backend.lane_entry:
        facts += dry_run.container_rows(role.job)
    if role.job.workdir != job.workdir:
        facts.append(("folder", role.job.workdir))
    whole = rows(job)
    whole.append(("setup", f"role {role.name}"))
    facts += [fact for fact in rows(role.job) if fact not in whole]
    facts += [("note", note) for note in role.job.origin.notes if note not in job.origin.notes]
    yield f"role {role.name}:"
    yield from (f"  {line}" for line in dry_run.aligned(facts))
    yield ""


def _rows(role: RoleSpec) -> Iterator[tuple[str, ...]]:
    """Yield the row of a role, and one for each further group of nodes with other slots."""
    size = role.job.plan.world_size
    terms = (
        "?" if size is None else str(size),
        ", ".join(role.ports) or "-",
        ", ".join(role.after) or "-",
        _ready(role.ready),
        role.ends,
        _on_failure(role),
    )
    groups = _groups(role.job.plan.nodes)
    if len(groups) > SHOWN:
        groups[SHOWN:] = [("", f"... and {len(groups) - SHOWN} more groups (--json shows all)")]
    for at, (slots, names) in enumerate(groups):
        yield ("" if at else role.name, names, slots, *([""] * len(terms) if at else terms))


def _groups(nodes: Sequence[Node]) -> list[tuple[str, str]]:
    """Return (slots, names of nodes) for each group of nodes with equal slots."""
    groups: dict[str, list[str]] = {}
    for node in nodes:
        slots = "all" if node.slots is None else show_slots(node.slots)
        groups.setdefault(slots, []).append(node.host.name)
    return [(slots, ",".join(map(spell, runs_of(names)))) for slots, names in groups.items()]


def _ready(ready: Ready) -> str:
    """Return the condition for the readiness of a role, in the form of the option."""
    if ready.kind == "started":
        return ready.kind
    what = f"{ready.port}{ready.what}" if ready.port else ready.what
    return f"{ready.kind}:{what} in {ready.timeout:g} s"


def _on_failure(role: RoleSpec) -> str:
    if role.on_failure == "job":
        return "the job fails"
    return f"restart, {role.max_restarts} times"
