"""Order the nodes of a job as --rank_order and --segment say."""

from __future__ import annotations

from ..common import executable, files
from ..common.errors import UsageError, reason
from ..common.text import plain
from ..resources.rank_order import as_listed, by_blocks, check_segments
from ..resources.select import select

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..cli.options import Options
    from ..specs.host import Host

SLURM, BLOCKS = "slurm", "blocks"
"""Values of --rank_order besides the name of a file."""

LIMIT = 30.0
"""Seconds for Slurm to answer."""


def arrange(options: Options, hosts: Sequence[Host], source: str, count: int | None) -> list[Host]:
    """Return the first `count` nodes of a job, or all, in the order of their ranks.

    Args:
        options: with --rank_order, --segment or both.
        hosts: the hosts that may take part, in the order of the hostfile.
        source: the source of the hosts, for errors.
        count: the number of nodes; None for all.

    Raises:
        UsageError: the order is not known or no permutation, or a segment is not in one block.
    """
    _check(options)
    segment = options.segment or 0
    ordered = _ordered(options.rank_order or BLOCKS, hosts, source, segment)
    if count is not None:
        ordered = select(ordered, num_nodes=count, source=source)
    if segment:
        check_segments(ordered, segment)
    return ordered


def _check(options: Options) -> None:
    for name in ("watch_hostfile", "host_discovery_script"):
        if getattr(options, name):
            flag = "--rank_order" if options.rank_order else "--segment"
            raise UsageError(f"{flag}: not with --{name}, which adds hosts at any time")


def _ordered(order: str, hosts: Sequence[Host], source: str, segment: int) -> list[Host]:
    if order == SLURM:
        from ..resources.aliases import meant
        from ..resources.slurm_topology import blocks

        known = blocks(_topology())
        own = meant((host.name for host in hosts), known)
        placed = [
            host._replace(block=known.get(own.get(host.name, ""), host.block)) for host in hosts
        ]
        return by_blocks(placed, list(dict.fromkeys(known.values())), segment)
    if order == BLOCKS:
        if not any(host.block for host in hosts):
            flag = f"--segment {segment}" if segment else f"--rank_order {order}"
            raise UsageError(
                f"{flag}: {source} has no blocks; write block=NAME after the hosts in a hostfile,"
                " or use --rank_order slurm"
            )
        return by_blocks(hosts, segment=segment)
    return as_listed(hosts, _listed(order), source)


def _listed(path: str) -> list[Host]:
    from ..resources.hostfile import parse_hostfile

    try:
        listed = parse_hostfile(files.read(path), path)
    except OSError as error:
        raise UsageError(
            f"--rank_order {path}: {reason(error)}; expected {SLURM}, {BLOCKS} or a file with the"
            " hosts in the order of their ranks"
        ) from None
    for host in listed:
        if host.slots is not None or host.user is not None or host.port is not None:
            raise UsageError(f"{host.where}: expected only HOST, or HOST block=NAME")
    return listed


def _topology() -> str:
    """Return Slurm's description of the network.

    Raises:
        UsageError: Slurm has none.
    """
    import subprocess

    command = ["scontrol", "show", "topology"]
    flag = f"--rank_order {SLURM}"
    try:
        ran = subprocess.run(
            command,
            executable=executable.located(command[0]),
            capture_output=True,
            text=True,
            errors="replace",
            timeout=LIMIT,
            check=False,
        )
    except FileNotFoundError:
        raise UsageError(f"{flag}: needs `scontrol`, which is not on PATH") from None
    except (OSError, subprocess.TimeoutExpired) as error:
        why = reason(error) if isinstance(error, OSError) else f"no answer in {LIMIT:g} s"
        raise UsageError(f"{flag}: `{' '.join(command)}`: {why}") from None
    if ran.returncode:
        lines = [line.strip() for line in ran.stderr.split("\n") if line.strip()]
        said = plain(lines[-1]) if lines else f"code {ran.returncode}"
        raise UsageError(f"{flag}: `{' '.join(command)}`: {said}")
    return ran.stdout
