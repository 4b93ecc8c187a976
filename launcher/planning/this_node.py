"""Fill in options from the environment if the command already runs on every node.

In a task of srun or mpirun, or in a pod of Kubeflow or of an indexed Job, each dsrun becomes its
node's launcher, as with --no_ssh, --node_rank and --master_addr. But a command line that gives the
node's whole place in a larger job is obeyed: another program starts it on each node, such
as one srun for each.
"""

from __future__ import annotations

import os

from ..common.errors import UsageError
from ..common.stderr import tell
from ..resources.ranges import is_count
from .hosts import by_rank
from .shape import bounds

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..cli.options import Options
    from ..cli.parser import Command
    from ..resources.cluster_environment import ClusterEnvironment

TOGETHER = (
    "start the nodes of the job together, or give each of them --nnodes, --node_rank and"
    " --master_addr"
)


def apply(command: Command, environ: Mapping[str, str]) -> Command:
    """Return the command with this node's place in the job, if the environment tells it.

    Raises:
        UsageError: the environment contradicts itself or the user's options.
    """
    from ..resources import cluster_environment

    options = command.options
    if options.standalone:
        return command
    terminal = cluster_environment.has_terminal()
    if command.rendezvous is not None:
        cluster_environment.check_agents(environ, command.rendezvous.most, terminal=terminal)
        return command
    place = cluster_environment.find(environ, _hostname(environ), terminal=terminal)
    apart = by_rank(options) if place is None else _is_another(place, options)
    if apart and _says_all(options):
        return command._replace(options=options.changed(no_ssh=True))
    if place is None:
        return _without_place(command, environ)
    if not _applies(place, options):
        return command
    _check(place, options)
    _warn_of_node_rank(place, options)
    given = {
        "no_ssh": True,
        "node_rank": place.node_rank,
        "nnodes": _nodes(place, options),
        "host": options.host or (None if options.hostfile else ",".join(place.hosts) or None),
        "master_addr": options.master_addr or place.master_addr,
        "master_port": options.master_port or place.master_port,
        "control_port": options.control_port or place.control_port,
        "num_gpus": options.num_gpus if options.nproc_per_node else options.num_gpus or place.slots,
    }
    return command._replace(options=options.changed(**given), joined=place.words)


def _without_place(command: Command, environ: Mapping[str, str]) -> Command:
    """Return the command, with a note if RANK and WORLD_SIZE seem to be this node's.

    In pods of Kubeflow's PyTorchJob before 1.5 these variables belong to the node; a worker of
    another launcher also has LOCAL_RANK. torchrun does not use them either.

    Raises:
        UsageError: the command is for every node, but would start a job of this node alone.
    """
    options, rank, size = command.options, environ.get("RANK", ""), environ.get("WORLD_SIZE", "")
    if not (is_count(rank) and is_count(size)) or int(size) < 2 or "LOCAL_RANK" in environ:
        return command
    said = f"RANK={rank} and WORLD_SIZE={size}"
    whole = f"--nnodes={size} --node_rank={rank} --master_addr=HOST"
    if options.no_ssh and (options.node_rank is None or _is_alone(options)):
        raise UsageError(
            f"--no_ssh: {said} are set; if they are this node's, use {whole}, else unset them"
        )
    if not _is_alone(options) or options.node_rank is not None:
        return command
    note = (
        f"{said} are not used: this is a separate job; for one node of several, use --no_ssh"
        f" {whole}"
    )
    return command._replace(notes=(*command.notes, note))


def _is_alone(options: Options) -> bool:
    named = options.host or options.hostfile or options.host_discovery_script
    return not named and (_given_nodes(options) or 1) == 1


def _hostname(environ: Mapping[str, str]) -> str:
    """Return this host's name; in a pod the full name, as short names of pods do not resolve."""
    if "JOB_COMPLETION_INDEX" not in environ:
        return os.uname().nodename
    import socket

    return socket.getfqdn()


def _applies(place: ClusterEnvironment, options: Options) -> bool:
    """Return whether to use the place: a single node with given hosts does not need it."""
    if options.no_ssh:
        return True
    named = options.host or options.hostfile or options.launcher != "auto"
    nodes = place.nodes if place.nodes is not None else options.nnodes or options.num_nodes
    return bool(nodes) and not (place.nodes == 1 and named)


def _given_nodes(options: Options) -> int | None:
    return bounds(options.nnodes)[0] if options.nnodes else options.num_nodes


def _says_all(options: Options) -> bool:
    """Return whether the options give a node's whole place in a job of several nodes."""
    hosts = options.no_ssh and (options.host or options.hostfile)
    several = options.master_addr is not None and (_given_nodes(options) or 0) > 1
    return options.node_rank is not None and bool(hosts or several)


def _is_another(place: ClusterEnvironment, options: Options) -> bool:
    """Return whether the place belongs to a job with another number of nodes than the options'."""
    given = _given_nodes(options)
    return place.nodes == 1 if given is None else place.nodes not in {None, given}


def _nodes(place: ClusterEnvironment, options: Options) -> str | None:
    if options.nnodes or options.num_nodes:
        return options.nnodes
    return str(place.nodes) if place.nodes else None


def _warn_of_node_rank(place: ClusterEnvironment, options: Options) -> None:
    """Print, on the first node where --node_rank is wrong, that it is ignored."""
    given = options.node_rank
    first = 1 if given == 0 else 0
    if given in {None, place.node_rank} or place.node_rank != first or options.quiet:
        return
    tell(
        f"ignoring --node_rank {given}: this is {place.words} with node rank"
        f" {place.node_rank}; a variable in a batch script is expanded once, on the first node"
    )


def _check(place: ClusterEnvironment, options: Options) -> None:
    """Check that options and environment agree; a launcher's task overrides --node_rank.

    Raises:
        UsageError: options and environment disagree.
    """
    overridden = place.task and place.nodes != 1
    pairs = (
        ("--nnodes", bounds(options.nnodes)[0] if options.nnodes else None, place.nodes),
        ("--num_nodes", options.num_nodes, place.nodes),
        ("--node_rank", None if overridden else options.node_rank, place.node_rank),
    )
    for flag, given, expected in pairs:
        if given is None or expected is None or given == expected:
            continue
        # Without the option, nodes that were started one by one would be separate jobs.
        apart = place.nodes == 1 or (flag != "--node_rank" and given > expected)
        advice = TOGETHER if apart else f"leave {flag} out"
        raise UsageError(f"{flag} {given}: this is {place.words}, which sets {expected}; {advice}")
