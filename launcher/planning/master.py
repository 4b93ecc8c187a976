"""Node 0's address for the workers, if options specify it. Pure."""

from __future__ import annotations

from ..common.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..cli.options import Options
    from ..specs.host import Host


def address(options: Options, hosts: Sequence[Host], *, alone: bool) -> str | None:
    """Return node 0's address for the workers: --master_addr, or --local_addr on node 0.

    Args:
        options: the options of the command line.
        hosts: the nodes of the job.
        alone: whether one command runs on every node.

    Raises:
        UsageError: an address is malformed or belongs to another node, or --local_addr has no use.
    """
    local = options.local_addr
    if options.master_addr is not None:
        _check("--master_addr", options.master_addr)
        _check_first(options.master_addr, hosts)
    if local is None or options.node_rank:
        return options.master_addr
    _check("--local_addr", local)
    if len(hosts) == 1:
        return options.master_addr or local
    if not alone:
        raise UsageError(
            f"--local_addr {local}: this command starts {len(hosts)} nodes and finds their"
            " addresses itself; give node 0's with --master_addr"
        )
    return local


def _check(flag: str, named: str) -> None:
    from ..resources.names import bad_label, check_name, lacks_zone

    try:
        check_name(named)
    except UsageError:
        rule = "" if ":" in named else bad_label(named)
        raise UsageError(
            f"{flag} {named!r}: expected a host name or an address without a port;"
            f" {rule or '--master_port sets the port'}"
        ) from None
    if lacks_zone(named):
        raise UsageError(f"{flag}: {lacks_zone(named)}")


def _check_first(named: str, hosts: Sequence[Host]) -> None:
    # Import it only here: this takes longer than the rest of planning.
    from ..common.network import same_host

    first, *others = (host.name for host in hosts)
    if not same_host(first, named) and any(same_host(name, named) for name in others):
        raise UsageError(
            f"--master_addr {named}: rank 0 runs on node 0, which is {first};"
            f" leave the option out, or list {named} first"
        )
