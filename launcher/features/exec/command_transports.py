"""The transports of dsrun-exec to the hosts: a hold, the `ssh` program, or node launchers."""

from __future__ import annotations

import os

from ...common.errors import UsageError
from ...common.text import plain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from contextlib import ExitStack

    from ...cli.options import Options
    from ...cli.tool_parser import ToolCommand
    from ...common.loop import Loop
    from ...head.output.console import Console
    from ...specs.backend import BackendSettings
    from ...specs.host import Host
    from .runner_events import Transport


def transport_of(loop: Loop, command: ToolCommand, console: Console, stack: ExitStack) -> Transport:
    """Return the way to the hosts of a command line.

    Raises:
        UsageError: the options name no hosts, or there is no way to them.
    """
    options = command.options
    if options.on is not None:
        return _hold(loop, command, console, stack)
    from ...backends import BACKENDS, allocates
    from ...planning import launcher

    hosts = _hosts(command)
    choice = launcher.choose(options, hosts, alone=False)
    if allocates(choice.name) and "SLURM_JOB_ID" not in os.environ:
        raise UsageError(
            f"--launcher {choice.name}: this is not a Slurm job; run `salloc dsrun-exec ...`"
        )
    if BACKENDS[choice.name].by_engine or (choice.name == "ssh" and not _has_entry()):
        return _fleet(loop, options, console, stack)
    from .runner_ssh_hosts import SshHosts

    return SshHosts(loop, hosts, _settings(options))


def _has_entry() -> bool:
    """Return whether the user database has this user, as the program `ssh` requires."""
    from ...common.account import account

    return account().known


def _hosts(command: ToolCommand) -> list[Host]:
    """Return the hosts that the options, a scheduler or a file name.

    Raises:
        UsageError: nothing names any.
    """
    from ...planning.hosts import select
    from ...planning.inventory import UNNAMED, find_hosts

    found = find_hosts(command.options)
    if found is UNNAMED:
        first = command.rest[0] if command.rest else ""
        meant = f" (did you mean --host {plain(first)}?)" if "," in first else ""
        if os.path.isfile(first) and len(command.rest) > 1:
            meant = f" (did you mean -H {plain(first)}?)"
        raise UsageError(f"no hosts: give --host, --hostfile or --on{meant}; see dsrun-exec -h")
    return select(command.options, found)


def _settings(options: Options) -> BackendSettings:
    from ...planning.planner import backend_settings
    from ...specs.program import Program

    return backend_settings(Program(script="", python=options.python or ""), options)


def _hold(loop: Loop, command: ToolCommand, console: Console, stack: ExitStack) -> Transport:
    """Return the nodes of the hold that --on names, or those that the options select.

    Raises:
        UsageError: there is no such hold, or an option contradicts the hold.
    """
    from ...planning.hosts import host_filter
    from ...resources.select import choose
    from ...resources.source import HostSource
    from ..hold import plan_held as held
    from .runner_hold_hosts import HoldHosts

    options = command.options
    held.check_given(options.on or "", command.given)
    client = stack.enter_context(held.find(options.on or ""))
    nodes = held.nodes_of(held.ask(client, {"do": "describe"}))
    chosen = choose(
        HostSource(nodes.hosts, f"hold {nodes.name}"), host_filter(options, len(nodes.hosts))
    )
    return HoldHosts(loop, client, [host.name for host in chosen], console.log)


def _fleet(loop: Loop, options: Options, console: Console, stack: ExitStack) -> Transport:
    """Return hosts with node launchers, started by the engine of the options.

    Raises:
        UsageError: the engine cannot start node launchers there.
    """
    from ...head.fleet.fleet import NodeFleet
    from ...head.job.start import prepare
    from ..hold.plan import plan_hold
    from ..join.runner import announced
    from .runner_fleet_hosts import FleetHosts

    job = plan_hold(options).job
    parts = prepare(job.plan, job.settings).parts
    nodes = sorted((node for part in parts for node in part.nodes), key=lambda node: node.rank)
    fleet = NodeFleet(nodes, loop, console.log, job.supervision.heartbeat_timeout)
    dial = stack.enter_context(announced(fleet, parts, job, console))
    return FleetHosts(fleet, lambda: fleet.connect(parts, dial), job.supervision.start_timeout)
