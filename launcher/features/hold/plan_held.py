"""The plan of a job on held nodes: the hold has chosen hosts and launcher."""

from __future__ import annotations

import os
import sys
from contextlib import suppress

from ... import __version__
from ...cli.options import all_options
from ...common import output_file
from ...common.errors import DsrunError, NodeError, UsageError
from ...common.records import NamedTuple
from ...common.stderr import tell
from ...control import local
from ...control.local_client import connect, running
from ...planning.hosts import host_filter
from ...planning.job import job_spec
from ...planning.launcher import BackendChoice
from ...planning.planner import check_program, plan_on
from ...resources.select import choose
from ...resources.source import HostSource, is_here
from ...specs import codec
from ...specs.backend import BackendSettings
from ...specs.environment import masks
from ...specs.host import Host

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence
    from typing import Any, TypeVar

    from ...cli.options import Options
    from ...cli.parser import Command
    from ...specs.host_updates import HostFilter
    from ...specs.job import JobSpec
    from ...specs.roles import RolesSpec
    from ..roles.plan_table import RoleTable

    T = TypeVar("T")
    from ...control.local_client import LocalClient, Message

NAMED = 3
"""Lost nodes that are named in one line."""


class HoldAnswer(NamedTuple):
    """The answer of a hold about its nodes.

    Attributes:
        launcher: the name of the backend that has started the nodes.
        hosts: the hosts in their order, with their slots.
        lost: why a host is missing at present, by its name.
        settings: the settings with which node launchers were started.
    """

    name: str
    launcher: str
    hosts: list[Host]
    lost: dict[str, str]
    settings: BackendSettings


def check(command: Command) -> None:
    """Check that no option conflicts with the decisions of the hold.

    Raises:
        UsageError: an option conflicts.
    """
    rendezvous = command.rendezvous
    others = [f"--rdzv_backend {rendezvous.backend}"] if rendezvous is not None else []
    check_given(command.options.on or "", command.given, others)
    check_program(command)


def check_given(hold: str, given: Collection[str], others: Sequence[str] = ()) -> None:
    """Check that no given option conflicts with the decisions of the hold.

    Args:
        hold: the name of the hold.
        given: the names of options.
        others: further options that do, as text.

    Raises:
        UsageError: an option conflicts.
    """
    decided = [name for name, row in all_options().items() if row.by_hold and name in given]
    named = [*(f"--{name}" for name in decided), *others]
    if named:
        raise UsageError(
            f"--on {hold}: not with {', '.join(named)}, which dsrun-hold sets;"
            " --include, --exclude, --num_nodes and --num_gpus choose among its nodes"
        )


def nodes_of(answer: Mapping[str, Any]) -> HoldAnswer:
    """Return a hold's answer about its nodes.

    Raises:
        UsageError: the hold runs another version of dsrun.
    """
    name, version = str(answer.get("name"))[:63], str(answer.get("version"))[:40]
    again = f"start it again: dsrun-hold --release {name}"
    if version != __version__:
        raise UsageError(
            f"--on {name}: the hold runs dsrun {version}, but this is dsrun {__version__}; {again}"
        )
    try:
        hosts = [Host(one["name"], tuple(one["slots"])) for one in answer["hosts"]]
        lost = {one["name"]: one["reason"] for one in answer["hosts"] if one["state"] == "lost"}
        settings = codec.decode(BackendSettings, answer["settings"])
        return HoldAnswer(name, answer["launcher"], hosts, lost, settings)
    except (LookupError, TypeError, UsageError) as error:
        why = f": {error}" if isinstance(error, UsageError) else ""
        raise UsageError(
            f"--on {name}: the hold's answer is in a different format from that of dsrun"
            f" {__version__}{why}; {again}"
        ) from None


def held_job(command: Command, held: HoldAnswer) -> JobSpec:
    """Return the job of a command line on held nodes.

    Raises:
        UsageError: options conflict, or name something that does not exist.
        NodeError: the nodes are lost at present.
    """

    def plan(inventory: HostSource, hosts: Sequence[Host], choice: BackendChoice) -> JobSpec:
        planned = plan_on(command, inventory, hosts, choice, alone=False)
        return _as_held(job_spec(planned, command.options), held, hosts)

    return _on_present(command.options, held, plan)


def held_roles(command: Command, tables: Sequence[RoleTable], held: HoldAnswer) -> RolesSpec:
    """Return a job of several roles on all held nodes that the checked options select.

    Raises:
        UsageError: options conflict, or name something that does not exist.
        NodeError: the nodes are lost at present.
    """
    from ..roles.plan_spec import Nodes, roles_spec

    for table in tables:
        if table.get("stdin") != "none":
            raise table.error("stdin", "not with --on, as held nodes get no standard input")

    def plan(inventory: HostSource, hosts: Sequence[Host], choice: BackendChoice) -> RolesSpec:
        nodes = Nodes(inventory, hosts, choice, container=held.settings.container)
        spec = roles_spec(command, tables, nodes)
        return spec._replace(job=_as_held(spec.job, held, hosts))

    return _on_present(command.options, held, plan)


def _on_present(
    options: Options,
    held: HoldAnswer,
    plan: Callable[[HostSource, Sequence[Host], BackendChoice], T],
) -> T:
    """Return the result of `plan` for the nodes that are not lost.

    Raises:
        UsageError: neither these nodes nor all nodes allow a plan.
        NodeError: a plan is possible only with the lost nodes.
    """
    inventory = HostSource(held.hosts, f"hold {held.name}")
    named = held.settings.python != sys.executable
    words = f"{held.launcher} (of hold {held.name})"
    choice = BackendChoice(held.launcher, words, names_python=named)
    filters = host_filter(options, len(held.hosts))
    try:
        return plan(inventory, _present(inventory, filters, held), choice)
    except UsageError:
        hosts = choose(inventory, filters)
        lost = [host.name for host in hosts if host.name in held.lost]
        if not lost:
            raise
        plan(inventory, hosts, choice)  # raises errors that even these hosts do not solve
        raise _missing(held, lost) from None


def _as_held(spec: JobSpec, held: HoldAnswer, hosts: Sequence[Host]) -> JobSpec:
    notes = (*spec.origin.notes, *_lost_note(held), *_mask_notes(hosts))
    spec = spec._replace(origin=spec.origin._replace(notes=notes), backend=held.settings)
    return _from_the_hold(spec)._replace(held=True, environ=dict(os.environ))


def _from_the_hold(spec: JobSpec) -> JobSpec:
    """Return a job whose report the hold, with another current folder, can write."""
    path = spec.output.report_file
    if path is None:
        return spec
    return spec._replace(output=spec.output._replace(report_file=output_file.from_elsewhere(path)))


def _present(inventory: HostSource, filters: HostFilter, held: HoldAnswer) -> list[Host]:
    """Return the hosts that take part: those that the options select, without lost ones.

    Raises:
        UsageError: the options cannot be met by those that are here.
        NodeError: --include names a lost host, or all are lost.
    """
    here = [host for host in held.hosts if host.name not in held.lost]
    by_name = filters.include or filters.exclude
    selected = choose(
        inventory if by_name else inventory._replace(hosts=here or held.hosts), filters
    )
    lost = [host.name for host in selected if host.name in held.lost]
    if lost and (filters.include or len(lost) == len(selected)):
        raise _missing(held, lost)
    return [host for host in selected if host.name not in lost]


def _missing(held: HoldAnswer, lost: list[str]) -> NodeError:
    return NodeError(
        f"--on {held.name}: lost {_causes(held, lost)}; the hold keeps trying to reach it"
    )


def _lost_note(held: HoldAnswer) -> list[str]:
    """Return a note on hosts that are missing at present, if any."""
    return [f"currently missing: {_causes(held, list(held.lost))}"] if held.lost else []


def _causes(held: HoldAnswer, names: list[str]) -> str:
    shown = "; ".join(f"{name}: {held.lost[name]}" for name in names[:NAMED])
    rest = len(names) - NAMED
    return f"{shown}, and {rest} more" if rest > 0 else shown


def _mask_notes(hosts: Sequence[Host]) -> list[str]:
    """Return a note on variables that hide devices from other programs on this machine only."""
    names = sorted(masks(os.environ))
    if not names or not any(map(is_here, hosts)):
        return []
    return [f"{', '.join(names)} has no effect on held nodes; --include chooses their slots"]


LAST = "last"
"""Names the hold that was started last."""

PATIENCE = 2.0
"""Seconds for a hold to say when it was started."""

SLOW = 2.0
"""Seconds without an answer after which the user learns what dsrun waits for."""


def find(name: str, option: str = "--on") -> LocalClient:
    """Connect to a hold of this user on this machine; `last` is the newest.

    Raises:
        UsageError: no hold has that name; `option` gave it.
        NodeError: the hold's process is stopped, and cannot answer.
    """
    client = _newest(option) if name == LAST else connect(local.HOLD, name)
    if client is None:
        names = ", ".join(running(local.HOLD))
        start = "; start one: dsrun-hold" if option == "--on" else ""
        known = f"running: {names}" if names else f"none is running{start}"
        raise UsageError(f"{option} {name}: no such hold on this machine; {known}")
    if _is_stopped(client.pid):
        with client:
            raise NodeError(
                f"{option} {name}: the hold does not answer: its process {client.pid} is stopped;"
                f" kill -CONT {client.pid} resumes it"
            )
    return client


def ask(client: LocalClient, request: Message) -> Message:
    """Return a hold's answer to a request of a command, whenever it comes.

    Raises:
        DsrunError: the answer is an error, or the hold has ended.
    """
    number = client.send(request)
    if not client.ready(SLOW):
        tell("waiting for the hold to answer; it is starting or stopped")
    return client.answer(number)


def _newest(option: str) -> LocalClient | None:
    names = running(local.HOLD)
    began = {name: since for name in names if (since := _since(name))}
    if names and not began:
        return find(names[-1], option)
    return connect(local.HOLD, max(began, key=began.__getitem__, default=""))


def _is_stopped(pid: int) -> bool:
    """Return whether a process is stopped by SIGSTOP or Ctrl-Z (proc(5))."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b") ")[2][:1] == b"T"
    except OSError:
        return False


def _since(name: str) -> float:
    """Return when a hold was started, in seconds since the epoch; 0 if it does not say."""
    client = connect(local.HOLD, name)
    if client is None:
        return 0.0
    with client, suppress(DsrunError, TypeError, ValueError):
        if _is_stopped(client.pid):
            return 0.0
        return float(client.ask({"do": "status"}, seconds=PATIENCE)["since"])
    return 0.0
