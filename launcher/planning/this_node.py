"""Where the same command already runs on every node: what says so fills in what the user left out.

A task of srun or mpirun, a pod of Kubeflow's or of an indexed Job: each dsrun becomes its node's
launcher, as with --no_ssh, --node_rank and --master_addr.
"""

from __future__ import annotations

import os
import sys

from ..common.errors import UsageError
from .elastic import bounds

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..cli.options import Options
    from ..cli.parser import Command
    from ..resources.cluster_environment import ClusterEnvironment


def apply(command: Command, environ: Mapping[str, str]) -> Command:
    """Return the command with its node's place in the job, where something says it.

    Raises:
        UsageError: what says so contradicts itself, or the user's own options.
    """
    from ..resources import cluster_environment

    options = command.options
    if options.standalone or command.rendezvous is not None:
        return command
    found = cluster_environment.find(
        environ, _hostname(environ), terminal=cluster_environment.has_terminal()
    )
    if found is None or not _counts(found, options):
        return command
    _check(found, options)
    _tell(found, options)
    given = {
        "no_ssh": True,
        "node_rank": found.node_rank,
        "nnodes": _nodes(found, options),
        "host": options.host or (None if options.hostfile else ",".join(found.hosts) or None),
        "master_addr": options.master_addr or found.master_addr,
        "master_port": options.master_port or found.master_port,
        "control_port": options.control_port or found.control_port,
        "num_gpus": options.num_gpus if options.nproc_per_node else options.num_gpus or found.slots,
    }
    return command._replace(options=options.changed(**given), joined=found.words)


def _hostname(environ: Mapping[str, str]) -> str:
    """Return this host's name; in full in a pod, whose siblings are not known by the short one."""
    if "JOB_COMPLETION_INDEX" not in environ:
        return os.uname().nodename
    import socket

    return socket.getfqdn()


def _counts(found: ClusterEnvironment, options: Options) -> bool:
    """Return whether this is a part of something: one node alone runs as it would anyway."""
    if options.no_ssh:
        return True
    named = options.host or options.hostfile or options.launcher != "auto"
    nodes = found.nodes if found.nodes is not None else options.nnodes or options.num_nodes
    return bool(nodes) and not (found.nodes == 1 and named)


def _nodes(found: ClusterEnvironment, options: Options) -> str | None:
    if options.nnodes or options.num_nodes:
        return options.nnodes
    return str(found.nodes) if found.nodes else None


def _tell(found: ClusterEnvironment, options: Options) -> None:
    """Say that --node_rank does not count, on the first node for which it is wrong."""
    given = options.node_rank
    first = 1 if given == 0 else 0
    if given in {None, found.node_rank} or found.node_rank != first or options.quiet:
        return
    sys.stderr.write(
        f"dsrun: --node_rank {given}: passed over: this is {found.words}, which says"
        f" {found.node_rank}; a variable in the batch script is expanded there, once\n"
    )
    sys.stderr.flush()


def _check(found: ClusterEnvironment, options: Options) -> None:
    """See that the user and the scheduler say the same; of a task its own rank counts.

    Raises:
        UsageError: they do not.
    """
    said = (
        ("--node_rank", None if found.task else options.node_rank, found.node_rank),
        ("--nnodes", options.nnodes and bounds(options.nnodes)[0], found.nodes),
        ("--num_nodes", options.num_nodes, found.nodes),
    )
    for flag, ours, theirs in said:
        if ours is not None and theirs is not None and ours != theirs:
            raise UsageError(f"{flag} {ours}: but this is {found.words}, which says {theirs}")
