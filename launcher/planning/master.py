"""Where the options say that node 0 is, for the workers. Pure."""

from __future__ import annotations

from ..common.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..cli.options import Options
    from ..specs.host import Host


def address(options: Options, hosts: Sequence[Host], *, alone: bool) -> str | None:
    """Return node 0's address for the workers; --local_addr tells it where this is node 0.

    Args:
        options: what the user asked for.
        hosts: the nodes.
        alone: the same command runs on every node.

    Raises:
        UsageError: it is no address, or another node's; --local_addr is for one of several nodes.
    """
    ours = options.local_addr
    if options.master_addr is not None:
        _check("--master_addr", options.master_addr)
        _check_first(options.master_addr, hosts)
    if ours is None or options.node_rank:
        return options.master_addr
    _check("--local_addr", ours)
    if len(hosts) == 1:
        return options.master_addr or ours
    if not alone:
        raise UsageError(
            f"--local_addr {ours}: this starts {len(hosts)} nodes, whose addresses"
            " are found and tried out; --master_addr names node 0's"
        )
    return ours


def _check(flag: str, named: str) -> None:
    from ..resources.names import check_name

    try:
        check_name(named)
    except UsageError:
        raise UsageError(
            f"{flag} {named!r}: expected a host name or an address alone;"
            " --master_port names the port"
        ) from None


def _check_first(named: str, hosts: Sequence[Host]) -> None:
    # Only here: it takes longer to import than the rest of planning.
    from ..common.network import same_host

    first, *others = (host.name for host in hosts)
    if not same_host(first, named) and any(same_host(name, named) for name in others):
        raise UsageError(
            f"--master_addr {named}: the master is on node 0, which is {first};"
            f" leave it out, or list {named} first"
        )
