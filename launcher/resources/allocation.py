"""Read the hosts that a scheduler has allocated to this job, from a table of its variables.

A slot is a device. A scheduler's numbers are used as slots only if they count GPUs or, in Slurm, if
no GPUs are requested but several tasks per node are. Other numbers count cores or MPI ranks; then
each node counts its own devices. `slurm` and `nodefile` have the details.
"""

from __future__ import annotations

from ..common import files
from ..common.errors import UsageError
from ..common.records import NamedTuple
from ..common.wording import counted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ..specs.host import Host

    Environ = Mapping[str, str]
    Read = Callable[[str], bytes]
    ReadSource = Callable[[str, Environ, Read], "_Groups | None"]


COUNTED = "each node counts its devices"


class Allocation(NamedTuple):
    """The hosts of a scheduler's job.

    Attributes:
        scheduler: slurm, pbs, lsf, sge, cobalt or mpi-operator.
        hosts: the hosts in the scheduler's order.
        words: text for the user: the job, the variable, the number of nodes, the slots' source.
        groups: host names by component of a heterogeneous Slurm job; otherwise one group.
        notes: lines about variables that contradict the job.
    """

    scheduler: str
    hosts: list[Host]
    words: str
    groups: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...] = ()


class _Groups(NamedTuple):
    """The result of a source: the hosts of each group, and the source of their slots."""

    groups: Sequence[Sequence[Host]]
    note: str


class _Source(NamedTuple):
    """A variable that names the hosts of a job.

    Attributes:
        scheduler: see `Allocation`.
        name: the scheduler's name for the user.
        job: the variable with the job's id; without it, `variable` is ignored. "" for none.
        variable: the variable that names the hosts.
        read: takes the variable, the environment and a function that reads files; returns None if
            there is no job.
    """

    scheduler: str
    name: str
    job: str
    variable: str
    read: ReadSource


def find(environ: Environ, read: Read | None = None) -> Allocation | None:
    """Return the hosts that are allocated to this job, or None outside of a job.

    Args:
        environ: the environment of this process.
        read: returns the bytes of a file, or raises OSError.

    Raises:
        UsageError: a variable or file is malformed; the message names it, and what was expected.
    """
    for source in _SOURCES:
        if environ.get(source.variable) and (not source.job or environ.get(source.job)):
            groups = _read(source, environ, read or files.read)
            if groups:
                return _allocation(source, environ, groups)
    return None


def _read(source: _Source, environ: Environ, read: Read) -> _Groups | None:
    try:
        return source.read(source.variable, environ, read)
    except UsageError as fault:
        if not (source.job and isinstance(fault.__cause__, FileNotFoundError)):
            raise
        raise UsageError(
            f"{fault}; if {source.name} job {environ[source.job]} has ended, its variables are left"
            f" over in this shell: `unset {source.job}`"
        ) from None


def _allocation(source: _Source, environ: Environ, result: _Groups) -> Allocation:
    hosts = [host for group in result.groups for host in group]
    _check_distinct(hosts)
    job = f" job {environ[source.job]}" if source.job else ""
    groups = tuple(tuple(host.name for host in group) for group in result.groups)
    words = f"{source.name}{job} ({source.variable}, {_size(groups)}; {_slots(hosts, result.note)})"
    return Allocation(source.scheduler, hosts, words, groups, _notes(source, environ))


def _notes(source: _Source, environ: Environ) -> tuple[str, ...]:
    if source.scheduler != "slurm":
        return ()
    from .slurm import stale_requests

    return tuple(stale_requests(environ).values())


def _size(groups: Sequence[Sequence[str]]) -> str:
    components = f" in {len(groups)} components" if len(groups) > 1 else ""
    return f"{counted(sum(map(len, groups)), 'node')}{components}"


def _slots(hosts: Sequence[Host], note: str) -> str:
    unknown = [host for host in hosts if host.slots is None]
    rest = "the others count their devices" if len(unknown) < len(hosts) else COUNTED
    return ", ".join(filter(None, [note, rest if unknown else ""]))


def _check_distinct(hosts: Sequence[Host]) -> None:
    """Check that no host is in two components of a job: dsrun runs one node launcher per host."""
    first: dict[str, Host] = {}
    for host in hosts:
        other = first.setdefault(host.name, host)
        if other is not host:
            raise UsageError(
                f"{host.where}: host {host.name!r} is also in {other.where}, but dsrun uses a host "
                "only once; name the hosts to use with --host"
            )


def _components(_variable: str, environ: Environ, _read: Read) -> _Groups | None:
    from .slurm import components

    # sbatch passes these variables on to a job that is submitted from within another job.
    if environ["SLURM_JOB_ID"] != environ.get("SLURM_JOB_ID_HET_GROUP_0"):
        return None
    parts = components(environ)
    notes = dict.fromkeys(part.note for part in parts if part.note)
    return _Groups([part.hosts for part in parts], ", ".join(notes))


def _nodelist(variable: str, environ: Environ, _read: Read) -> _Groups:
    from .slurm import component

    hosts, note = component(environ, variable)
    return _Groups([hosts], note)


def _nodefile(variable: str, environ: Environ, read: Read) -> _Groups | None:
    from .nodefile import READERS

    result = READERS[variable](variable, environ, read)
    return _Groups([result[0]], result[1]) if result else None


_SLURM = ("slurm", "Slurm", "SLURM_JOB_ID")
_PBS = ("pbs", "PBS", "PBS_JOBID")
_LSF = ("lsf", "LSF", "LSB_JOBID")
_OPERATOR = ("mpi-operator", "MPI Operator", "")

_SOURCES = (
    _Source(*_SLURM, "SLURM_JOB_NODELIST_HET_GROUP_0", _components),
    _Source(*_SLURM, "SLURM_JOB_NODELIST", _nodelist),
    _Source(*_SLURM, "SLURM_NODELIST", _nodelist),
    _Source(*_PBS, "PBS_NODEFILE", _nodefile),
    _Source(*_LSF, "LSB_DJOB_HOSTFILE", _nodefile),
    _Source(*_LSF, "LSB_MCPU_HOSTS", _nodefile),
    _Source(*_LSF, "LSB_HOSTS", _nodefile),
    _Source("sge", "Grid Engine", "JOB_ID", "PE_HOSTFILE", _nodefile),
    _Source("cobalt", "Cobalt", "COBALT_JOBID", "COBALT_NODEFILE", _nodefile),
    _Source(*_OPERATOR, "OMPI_MCA_orte_default_hostfile", _nodefile),
    _Source(*_OPERATOR, "I_MPI_HYDRA_HOST_FILE", _nodefile),
    _Source(*_OPERATOR, "HYDRA_HOST_FILE", _nodefile),
)
"""All sources, in order of precedence: the first with its variables set is used."""
