"""Select the hosts, and find this node's rank if one command runs on every node."""

from __future__ import annotations

from ..common.errors import UsageError, conflict
from ..common.wording import ranks_up_to
from ..resources import source
from ..resources.ranges import is_count
from ..resources.select import choose
from ..specs.host import MAX_SLOTS, PRIVATE, WORDS_FOR_ALL
from ..specs.host_updates import HostFilter
from .inventory import find_hosts
from .shape import bounds

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..cli.options import Options
    from ..cli.parser import Command
    from ..specs.host import Host


def select(options: Options, inventory: source.HostSource) -> list[Host]:
    """Return the hosts of an inventory that take part in the job.

    Raises:
        UsageError: options name unknown hosts or slots, or more hosts than are named anywhere.
    """
    hosts = host_filter(options, len(inventory.hosts))
    _check_named(options, inventory)
    if options.rank_order is None and options.segment is None:
        return choose(inventory, hosts)
    from .rank_order import arrange

    chosen = choose(inventory, hosts._replace(num_nodes=None))
    return arrange(options, chosen, inventory.words, hosts.num_nodes)


def chosen_hosts(options: Options) -> list[Host]:
    """Return the hosts that the options name and select.

    Raises:
        UsageError: the options name no hosts, or unknown ones.
    """
    return select(options, find_hosts(options))


def host_filter(options: Options, known: int) -> HostFilter:
    """Return the filters of the options for `known` hosts.

    Raises:
        UsageError: two options give different numbers.
    """
    return HostFilter(
        include=options.include,
        exclude=options.exclude,
        num_nodes=_num_nodes(options, known),
        num_gpus=number_of_gpus(options),
        accelerator=options.accelerator,
    )


def _num_nodes(options: Options, known: int) -> int | None:
    """Return --num_nodes or torchrun's --nnodes, also if written N:N."""
    # If the command runs on every node, hosts need only a number, no names.
    unnamed = by_rank(options) and known == 1
    if options.nnodes is None:
        return None if unnamed else options.num_nodes
    least, most = bounds(options.nnodes)
    if least < most:
        return options.num_nodes  # an elastic job takes all hosts; those beyond MAX are spares
    if options.num_nodes not in {None, least}:
        raise conflict(f"--nnodes {least}", f"--num_nodes {options.num_nodes}")
    return None if unnamed else least


def by_rank(options: Options) -> bool:
    """Return whether one command runs on every node: --no_ssh, or torchrun's static form."""
    return options.no_ssh or (
        options.nnodes is not None and options.node_rank is not None and not options.host
    )


def number_of_gpus(options: Options) -> int | None:
    """Return --num_gpus or torchrun's --nproc_per_node; None for all devices.

    Raises:
        UsageError: the two differ, or --nproc_per_node is invalid.
    """
    if options.nproc_per_node is None or options.nproc_per_node in WORDS_FOR_ALL | PRIVATE:
        return options.num_gpus
    if not (is_count(options.nproc_per_node) and 1 <= int(options.nproc_per_node) <= MAX_SLOTS):
        words = [*sorted(WORDS_FOR_ALL), *sorted(PRIVATE)]
        valid = f"1 to {MAX_SLOTS}, or {', '.join(words)}"
        raise UsageError(f"--nproc_per_node {options.nproc_per_node}: expected {valid}")
    count = int(options.nproc_per_node)
    if options.num_gpus not in {None, count}:
        raise conflict(f"--nproc_per_node {count}", f"--num_gpus {options.num_gpus}")
    return count


def _check_named(options: Options, inventory: source.HostSource) -> None:
    """Check that hosts are named if several nodes are requested.

    Raises:
        UsageError: no hosts are named.
    """
    count = bounds(options.nnodes)[0] if options.nnodes else options.num_nodes or 1
    alone = [host.name for host in inventory.hosts] == [source.THIS_MACHINE] and not options.host
    if count == 1 or not alone or options.hostfile or by_rank(options):
        return
    flag = "--nnodes" if options.nnodes else "--num_nodes"
    raise UsageError(
        f"{flag} {options.nnodes or count}: no hosts given; use --hostfile FILE, --host h1,h2 or a"
        " scheduler's allocation; or run this command on every node with --node_rank N"
        " --master_addr HOST, or with --rdzv_backend c10d --rdzv_endpoint HOST:PORT"
    )


def nodes_by_rank(command: Command, hosts: list[Host]) -> tuple[list[Host], bool]:
    """Return the nodes, and whether one command runs on every node (--no_ssh).

    In that case hosts need no names: they are called node-0, node-1, ... up to --nnodes.

    Raises:
        UsageError: this node's rank or node 0's address is missing, or the rank is too large.
    """
    options = command.options
    if not by_rank(options):
        if options.node_rank is not None and "node_rank" in command.given:
            raise UsageError(
                "--node_rank: only with --no_ssh or --nnodes N; then run the command on every node"
            )
        return hosts, False
    count = bounds(options.nnodes)[0] if options.nnodes else options.num_nodes or len(hosts)
    named = len(hosts) > 1 or hosts[0].name != source.THIS_MACHINE
    if not named:
        slots = hosts[0].slots
        hosts = [hosts[0]._replace(name=f"node-{rank}", slots=slots) for rank in range(count)]
    if options.node_rank is None:
        raise UsageError("--no_ssh: give the rank of this node: --node_rank N, from 0")
    if options.node_rank >= len(hosts):
        raise UsageError(f"--node_rank {options.node_rank}: {ranks_up_to(len(hosts), 'node')}")
    if len(hosts) > 1 and options.master_addr is None and not named:
        raise UsageError("--no_ssh: give the address of node 0: --master_addr HOST")
    return hosts, True
