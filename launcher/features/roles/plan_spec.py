"""The job of several roles: each role is planned as a job on its nodes, with its own options."""

from __future__ import annotations

import re

from ...cli.options import Options, all_options, written
from ...cli.parser import Command
from ...common.errors import UsageError
from ...common.records import NamedTuple
from ...common.wording import counted
from ...planning.hosts import by_rank, nodes_by_rank, number_of_gpus, select
from ...planning.inventory import find_hosts
from ...planning.job import job_spec
from ...planning.launcher import BackendChoice, as_it_calls_them, choose
from ...planning.planner import plan_on
from ...planning.rendezvous import OWN as OWN_RENDEZVOUS
from ...planning.shape import nodes_range
from ...resources.select import is_alone
from ...resources.source import names_here
from ...specs.program import NOTHING
from ...specs.role_words import PORT, placeholders
from ...specs.roles import RoleSpec, RolesSpec
from . import plan_placement as placement
from .plan_terms import terms

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ...planning.planner import PlannedJob
    from ...resources.source import HostSource
    from ...specs.backend import BackendSettings
    from ...specs.container import ContainerSpec
    from ...specs.host import Host
    from ...specs.job import JobSpec
    from .plan_table import RoleTable
    from .plan_terms import Terms

KEPT = (
    *("host", "num_nodes", "num_gpus", "nproc_per_node", "python", "workdir", "accelerator"),
    *("log_dir", "prefix", "grace", "export", "env_file", "master_addr", "master_port"),
)
"""Options that roles may have, and that also apply to the whole job."""

CONTAINER = frozenset({"container", "mount", "container_args"})
"""Options of the whole job that are only defaults of its roles if a role has its own container."""

OWN = frozenset(
    {
        *("host", "num_nodes", "nnodes", "num_gpus", "nproc_per_node", "master_addr"),
        *("master_port", "report_file", "metrics_file", "on_event", "requeue_on"),
        *("no_requeue_code", "roles"),
    }
)
"""Options of the whole job that its roles do not take from it."""

PREFIX = "{role}/{host}:{rank}| "

REFUSED = {
    "watch_hostfile": "hosts cannot be added to a job with roles",
    "host_discovery_script": "hosts cannot be added to a job with roles",
    "rank_per_task": "workers of several roles cannot be tasks of one engine",
    "role": "the ROLE_NAME of workers is the name of their role",
    "elastic_config": "give it to a role",
    "stdin": "give it to the role that reads standard input",
}
"""Options that a job of roles cannot have, and why."""


class Nodes(NamedTuple):
    """The nodes of a job, and the means to reach them.

    Attributes:
        inventory: the known hosts, and their source.
        alone: whether the command runs on every node.
        container: the container that held nodes run in, or None.
    """

    inventory: HostSource
    hosts: Sequence[Host]
    choice: BackendChoice
    alone: bool = False
    container: ContainerSpec | None = None


def find_nodes(command: Command) -> Nodes:
    """Return the nodes of a command line.

    Raises:
        UsageError: options conflict, or name something that does not exist.
    """
    options = command.options
    inventory = find_hosts(options)
    hosts, alone = nodes_by_rank(command, select(options, inventory))
    choice = choose(options, hosts, alone=alone)
    return Nodes(inventory, as_it_calls_them(choice, hosts), choice, alone)


def check(command: Command) -> None:
    """Check that a job of roles supports the options of a command line.

    Raises:
        UsageError: an option is not supported.
    """
    for name in sorted(command.given):
        if name in REFUSED:
            raise UsageError(f"--{name}: not with several programs; {REFUSED[name]}")
        if all_options()[name].only_role:
            also = "; workers on each host: --num_gpus N" if name == "devices" else ""
            place = "in a --roles file, or after --program"
            raise UsageError(f"--{name}: only for a role: {place}{also}")
        if name in {"master_addr", "master_port"} and not by_rank(command.options):
            raise UsageError(f"--{name}: each role has its own; give it to the role")
    if nodes_range(command.options):
        raise UsageError(
            f"--nnodes {command.options.nnodes}: not with several programs; roles may be elastic"
        )
    if command.options.rdzv_backend != OWN_RENDEZVOUS:
        backend = command.options.rdzv_backend
        raise UsageError(f"--rdzv_backend {backend}: not with several programs")
    if command.options.json and not command.options.dry_run:
        raise UsageError(
            "--json: only with --dry_run; --report_file FILE writes a job's result as JSON"
        )


def whole(command: Command, nodes: Nodes) -> PlannedJob:
    """Return the plan of all nodes of a job.

    Raises:
        UsageError: options conflict, or name something that does not exist.
    """
    return plan_on(_whole(command), nodes.inventory, nodes.hosts, nodes.choice, alone=nodes.alone)


def roles_spec(command: Command, tables: Sequence[RoleTable], nodes: Nodes) -> RolesSpec:
    """Return a job of several roles, given the checked options of the whole job.

    Raises:
        UsageError: a role is invalid or cannot be placed; the message names it.
    """
    known = terms(tables)
    _check_input(tables)
    commands = {one.name: _of_role(command, one) for one in tables}
    hosts = _placed(tables, commands, nodes)
    if any(not CONTAINER.isdisjoint(one.values) for one in tables):
        none = {name: all_options()[name].default for name in CONTAINER}
        command = command._replace(options=command.options.changed(**none))
    planned = whole(command, nodes)
    origin = planned.origin
    roles = [
        _role(one, known[one.name], commands[one.name], hosts[one.name], nodes) for one in tables
    ]
    if written(command.options):
        from ...planning import output_files

        for one in roles:
            read = output_files.inputs(commands[one.name].options, one.job.plan.program.script)
            output_files.check(command.options, read)
    spare = any(one.on_failure == "restart" or one.job.elastic for one in roles)
    unused = _unused_note(nodes.hosts, hosts, spare=spare)
    notes = (*origin.notes, *unused, *filter(None, map(_shared_port, roles)))
    planned = planned._replace(origin=origin._replace(notes=notes))
    # Held: a lost node does not end the job, and several programs run on a node.
    job = job_spec(planned, _whole(command).options)._replace(held=True)
    return RolesSpec(job, tuple(_within(one, job, nodes.container) for one in roles))


def _whole(command: Command) -> Command:
    """Return the command of a whole job, whose program is never started."""
    rows, given = all_options(), vars(command.options)
    kept = {
        name: value
        for name, value in given.items()
        if rows[name].whole_job or rows[name].by_hold or name in KEPT
    }
    options = Options(**kept).changed(module=True, no_local_rank=True)
    if "prefix" not in command.given:
        options = options.changed(prefix=PREFIX)
    # No note says of an option that the roles take that it is empty or lacks its partner.
    names = {one for one in command.given if one in kept or given[one] == rows[one].default}
    return command._replace(options=options, program=(NOTHING,), given=frozenset(names))


def _of_role(command: Command, table: RoleTable) -> Command:
    """Return the command of one role: the options of the whole job, and its own."""
    rows, given = all_options(), vars(command.options)
    values = {name: value for name, value in given.items() if name not in OWN}
    for name, value in table.values.items():
        adds = rows[name].kind == "list"
        values[name] = (*values.get(name, ()), *value) if adds else value
    values["role"] = table.name
    if table.get("local_rank"):
        values["no_local_rank"] = False
    names = (command.given - OWN) | table.values.keys()
    if "prefix" not in names:
        values["prefix"] = PREFIX
    if table.get("on_failure") == "restart":
        values["max_restarts"] = None  # restarts of the role, not rounds within it
    options = Options(**values)
    silent = options.no_local_rank or not options.local_rank
    options = options.changed(no_local_rank=silent)
    return command._replace(options=options, program=table.program, given=names, notes=())


def _placed(
    tables: Sequence[RoleTable], commands: Mapping[str, Command], nodes: Nodes
) -> dict[str, tuple[Host, ...]]:
    places = []
    for table in tables:
        try:
            workers = number_of_gpus(commands[table.name].options)
        except UsageError as error:
            raise _named(error, table) from None
        places.append(placement.wanted(table, workers))
    aliases = names_here() if is_alone(nodes.hosts) else ()
    return placement.place(places, nodes.hosts, nodes.inventory.words, aliases)


def _role(
    table: RoleTable, known: Terms, command: Command, hosts: Sequence[Host], nodes: Nodes
) -> RoleSpec:
    """Return a role with its job.

    Raises:
        UsageError: an option is invalid; the message names the role.
    """
    try:
        if any("{" in word for word in (*command.program, *command.options.export)):
            command = command._replace(options=command.options.changed(placeholders=True))
        planned = plan_on(command, nodes.inventory, hosts, nodes.choice, alone=nodes.alone)
        job = job_spec(planned, command.options)
    except UsageError as error:
        raise _named(error, table) from None
    if table.get("slots") == "0":
        job = job._replace(workers=job.workers._replace(expects_devices=False))
    return RoleSpec(name=table.name, job=job, **known._asdict())


def _named(error: UsageError, table: RoleTable) -> UsageError:
    """Return an error of planning a role with the places where its options are set."""
    text = str(error)
    for option, origin in table.origins.items():
        text = re.sub(rf"--{option}\b", origin.replace("\\", "\\\\"), text)
    return UsageError(text if text != str(error) else f"{table.where}: {text}")


def _within(role: RoleSpec, job: JobSpec, held: ContainerSpec | None) -> RoleSpec:
    """Return a role as a part of a job, with the job's id and a separate log folder.

    `held` is the container of held nodes.
    """
    ready, output = role.ready, role.job.output._replace(log_part=role.name)
    if ready.kind == "file":
        import os

        ready = ready._replace(what=os.path.join(role.job.workdir, ready.what))
    own = role.job._replace(job_id=job.job_id, output=output, backend=_backend(role, job, held))
    return role._replace(ready=ready, job=own)


def _backend(role: RoleSpec, job: JobSpec, held: ContainerSpec | None) -> BackendSettings:
    """Return the settings of a role, whose container has the job's id.

    Raises:
        UsageError: the role cannot have a separate container.
    """
    settings, own = role.job.backend, job.backend.container is None
    if settings.container is None:
        return settings
    name = f"role {role.name}: container = {settings.container.shown!r}"
    if own and settings.container.by_engine:
        raise UsageError(
            f"{name}: Slurm starts one such container on each node, for the whole job:"
            " dsrun --container, without the key"
        )
    if own and held is not None:
        raise UsageError(f"{name}: not here, as the held nodes run in {held.shown} already")
    several = len(job.plan.nodes) > 1
    return settings._replace(
        container=settings.container._replace(job=job.job_id, several=several, of_role=own)
    )


def _unused_note(
    hosts: Sequence[Host], placed: Mapping[str, Sequence[Host]], *, spare: bool
) -> list[str]:
    names = placement.unused(hosts, placed)
    if not names:
        return []
    shown = ", ".join(names[:3]) + (", ..." if len(names) > 3 else "")
    use = ", to replace lost ones" if spare else ""
    return [f"{counted(len(names), 'node')} without a role{use}: {shown}"]


def _shared_port(role: RoleSpec) -> str:
    """Return a warning if several workers on a node get one port in their command, or ""."""
    node = next((one for one in role.job.plan.nodes if len(one.slots or ()) > 1), None)
    program = role.job.plan.program
    port = next((one for one in placeholders(program.args) if one.what == PORT), None)
    if node is None or port is None:
        return ""
    return (
        f"role {role.name}: its {len(node.slots or ())} workers on {node.host.name} all get the"
        f" port {port}; if each listens there, give it workers = 1, or add LOCAL_RANK"
        " to the port"
    )


def _check_input(tables: Sequence[RoleTable]) -> None:
    reading = [table for table in tables if table.get("stdin") != "none"]
    if len(reading) > 1:
        text = f"only one role can read standard input; {reading[0].name} does"
        raise reading[1].error("stdin", text)
