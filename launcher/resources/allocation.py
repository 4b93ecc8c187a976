"""What a scheduler has allocated to the job that this runs in: one table of who says it, and how.

A slot is a device. A scheduler's own numbers are kept only where they are about GPUs (or, in Slurm,
where GPUs are nowhere spoken of and several tasks a node are asked for); anything else counts cores
or MPI ranks, and there each node counts its own devices. `slurm` and `nodefile` have the details.
"""

from __future__ import annotations

from ..common import files
from ..common.errors import UsageError
from ..common.values import NamedTuple
from ..common.wording import counted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ..specs.host import Host

    Environ = Mapping[str, str]
    Read = Callable[[str], bytes]
    ReadSource = Callable[[str, Environ, Read], "_Found | None"]


COUNTED = "each node counts its devices"


class Allocation(NamedTuple):
    """The hosts of a scheduler's job.

    Attributes:
        scheduler: slurm, pbs, lsf, sge, cobalt or mpi-operator.
        hosts: In the scheduler's order.
        words: For the user: which job, which variables, how many nodes, whose slots.
        groups: Names of hosts by the components of a heterogeneous Slurm job; else one group.
    """

    scheduler: str
    hosts: list[Host]
    words: str
    groups: tuple[tuple[str, ...], ...]


class _Found(NamedTuple):
    """What a row of the table has found: the hosts of each group, and where the slots are from."""

    groups: Sequence[Sequence[Host]]
    note: str


class _Source(NamedTuple):
    """A variable that says which hosts a job has.

    Attributes:
        name: What the user calls it.
        job: The variable with the number of the job: without it, the other means nothing.
        read: From the variable, the environment and a reader of files; None if it means no job.
    """

    scheduler: str
    name: str
    job: str
    variable: str
    read: ReadSource


def find(environ: Environ, read: Read | None = None) -> Allocation | None:
    """Return what is allocated to this job, or None outside of one.

    Args:
        environ: The environment of this process.
        read: Returns a file's bytes, or raises OSError.

    Raises:
        UsageError: A variable or file cannot be read: it is named, with what was expected.
    """
    for source in _SOURCES:
        if environ.get(source.variable) and (not source.job or environ.get(source.job)):
            found = source.read(source.variable, environ, read or files.read)
            if found:
                return _allocation(source, environ, found)
    return None


def _allocation(source: _Source, environ: Environ, found: _Found) -> Allocation:
    hosts = [host for group in found.groups for host in group]
    _distinct(hosts)
    job = f" job {environ[source.job]}" if source.job else ""
    groups = tuple(tuple(host.name for host in group) for group in found.groups)
    words = f"{source.name}{job} ({source.variable}, {_size(found)}; {_slots(hosts, found.note)})"
    return Allocation(source.scheduler, hosts, words, groups)


def _size(found: _Found) -> str:
    components = f" in {len(found.groups)} components" if len(found.groups) > 1 else ""
    return f"{counted(sum(map(len, found.groups)), 'node')}{components}"


def _slots(hosts: Sequence[Host], note: str) -> str:
    unknown = [host for host in hosts if host.slots is None]
    rest = "the others count their devices" if len(unknown) < len(hosts) else COUNTED
    return ", ".join(filter(None, [note, rest if unknown else ""]))


def _distinct(hosts: Sequence[Host]) -> None:
    """See that no host is in two components of a job: dsrun runs one node launcher on each."""
    first: dict[str, Host] = {}
    for host in hosts:
        other = first.setdefault(host.name, host)
        if other is not host:
            raise UsageError(
                f"{host.where}: host {host.name!r} is also in {other.where}; dsrun takes a host "
                "once: --host names the hosts to use"
            )


def _components(_variable: str, environ: Environ, _read: Read) -> _Found | None:
    from .slurm import components

    # sbatch hands these on to a job that is submitted in another.
    if environ["SLURM_JOB_ID"] != environ.get("SLURM_JOB_ID_HET_GROUP_0"):
        return None
    parts = components(environ)
    notes = dict.fromkeys(part.note for part in parts if part.note)
    return _Found([part.hosts for part in parts], ", ".join(notes))


def _nodelist(variable: str, environ: Environ, _read: Read) -> _Found:
    from .slurm import component

    hosts, note = component(environ, variable)
    return _Found([hosts], note)


def _nodefile(variable: str, environ: Environ, read: Read) -> _Found | None:
    from .nodefile import READERS

    found = READERS[variable](variable, environ, read)
    return _Found([found[0]], found[1]) if found else None


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
"""The first whose variables are set wins."""
