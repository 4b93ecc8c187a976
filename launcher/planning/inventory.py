"""Find the hosts, from exactly one source.

The sources, in this order: --host, --host_discovery_script, --hostfile, a scheduler's allocation,
/job/hostfile (DeepSpeed's default) if it exists, else this machine.
"""

from __future__ import annotations

import os
from contextlib import suppress

from ..backends import LOCAL
from ..common import files
from ..common.errors import UsageError, conflict, reason
from ..resources.source import THIS_MACHINE, HostSource, is_here
from ..specs.host import Host

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..cli.options import Options

DEFAULT_HOSTFILE = "/job/hostfile"

JOBS = ("SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID", "PE_HOSTFILE", "COBALT_JOBID")
"""Variables of schedulers: `allocation` finds a job only if at least one is set."""

UNNAMED = HostSource([Host(THIS_MACHINE)], "this machine (no hostfile)")
"""The source when nothing names hosts."""


def find_hosts(options: Options) -> HostSource:
    """Return the hosts that may take part.

    Raises:
        UsageError: there are two sources, or the source cannot be read.
    """
    _check(options)
    if options.standalone:
        return HostSource([Host(THIS_MACHINE)], "this machine (--standalone)")
    named = _named(options)
    return _default(options) if named is None else named._replace(notes=_unused(named, options))


def _named(options: Options) -> HostSource | None:
    """Return the hosts of the source that the user names, or None."""
    if options.host is not None:
        from ..resources.hostfile import parse_hosts

        return HostSource(parse_hosts(options.host), "--host")
    if options.host_discovery_script is not None:
        from ..resources.discovery import discover

        command = options.host_discovery_script
        return HostSource(discover(command), f"program {command}")
    if options.hostfile is not None:
        return HostSource(_read(options.hostfile), f"hostfile {options.hostfile}")
    return None


def _default(options: Options) -> HostSource:
    """Return the hosts of a scheduler or of the default hostfile, or this machine."""
    from ..resources.allocation import find as find_allocation

    allocation = None if options.no_ssh else find_allocation(os.environ)
    if allocation is not None and options.rank_per_task and allocation.scheduler == "slurm":
        from ..resources.slurm import with_tasks

        return HostSource(with_tasks(allocation.hosts, os.environ), allocation.words)
    if allocation is not None:
        from ..resources.slurm_job import verified

        allocation = verified(allocation, os.environ)
        return HostSource(allocation.hosts, allocation.words, allocation.notes)
    if os.path.exists(DEFAULT_HOSTFILE):
        return HostSource(_read(DEFAULT_HOSTFILE), f"hostfile {DEFAULT_HOSTFILE}")
    return UNNAMED


def _unused(named: HostSource, options: Options) -> tuple[str, ...]:
    """Return a note if the named hosts are only this machine, though its job has more nodes."""
    meant = options.no_ssh or options.launcher.lower() == LOCAL
    if meant or not any(map(os.environ.get, JOBS)) or not all(map(is_here, named.hosts)):
        return ()
    from ..resources.allocation import find as find_allocation

    held = None
    with suppress(UsageError):  # left over from another job, and not used
        held = find_allocation(os.environ)
    if held is None or len(held.hosts) < 2:
        return ()
    return (
        f"{named.words} names only this machine, but {held.words} has more;"
        " leave it out to use all nodes of the job",
    )


def watched(options: Options) -> str:
    """Return the path of the hostfile that --watch_hostfile watches."""
    return options.hostfile or DEFAULT_HOSTFILE


def _check(options: Options) -> None:
    """Check that the user names one source at most, and with --watch_hostfile a hostfile."""
    named = [
        f"--{name}"
        for name in ("host", "hostfile", "host_discovery_script")
        if getattr(options, name) is not None
    ]
    if options.standalone:
        named.insert(0, "--standalone")
    if len(named) > 1:
        raise conflict(*named)
    if options.watch_hostfile and named not in ([], ["--hostfile"]):
        raise conflict("--watch_hostfile", named[0])
    if options.watch_hostfile and not os.path.isfile(watched(options)):
        from ..common.access import absence

        path = watched(options)
        missing = f"no file {path}; give --hostfile FILE"
        raise UsageError(f"--watch_hostfile: {absence(path, missing) or missing}")


def _read(path: str) -> list[Host]:
    from ..resources.hostfile import parse_hostfile

    try:
        return parse_hostfile(files.read(path), path)
    except OSError as error:
        hosts = isinstance(error, FileNotFoundError) and "," in path
        advice = f"; if these are hosts, write --host {path}" if hosts else ""
        raise UsageError(f"--hostfile {path}: {reason(error)}{advice}") from None
