"""Read the files and lists in which PBS, LSF, Grid Engine, Cobalt and the MPI Operator name hosts.

They count cores or MPI ranks, but a slot is a device, and one worker for each of 64 cores would be
wrong. So only numbers of GPUs are used; otherwise each node counts its own devices. Each reader
takes the variable that names the file or holds the list, the environment, and a function that reads
files. It returns the hosts and the source of their slots, or None if there is no job.

Sources: qsub(1B) of OpenPBS and of Torque (PBS_NODEFILE, PBS_GPUFILE), IBM's "Environment variables
set for job execution" (LSB_*), sge_pe(5) (PE_HOSTFILE), and how Hydra and PRRTE read them.
"""

from __future__ import annotations

import re

from ..common.errors import UsageError, reason
from ..specs.host import MAX_SLOTS, Host
from .counts import bad, number
from .names import check_name
from .ranges import is_count, located

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from ..specs.host import Slot

    Read = Callable[[str], bytes]
    Places = Iterable[tuple[str, str]]
    Hosts = tuple[list[Host], str]

OPERATORS_HOSTFILE = "/etc/mpi/hostfile"
OPERATORS_VARIABLES = (
    "OMPI_MCA_orte_default_hostfile",
    "I_MPI_HYDRA_HOST_FILE",
    "HYDRA_HOST_FILE",
)
"""The variables that name the operator's hostfile, one for each MPI that it supports."""

_GPU = re.compile(r"(.+)-gpu([0-9]{1,4})")


def pbs(variable: str, environ: Mapping[str, str], read: Read) -> Hosts:
    """Read the hosts of PBS Pro, OpenPBS and Torque: a line for each rank, or core, of a host.

    Torque's PBS_GPUFILE lists the job's GPUs. PBS_NGPUS is the number of the whole job on some
    sites and of this host on others, so it is used only if there is one host.
    """
    hosts = _listed(variable, environ, read)
    path = environ.get("PBS_GPUFILE")
    gpus = _gpus(path, read) if path else None
    if gpus:
        return [_with_gpus(host, gpus) for host in hosts], "GPUs from PBS_GPUFILE"
    count = number(environ, "PBS_NGPUS", most=MAX_SLOTS) if len(hosts) == 1 else None
    if count:
        return [hosts[0]._replace(slots=tuple(range(count)))], "GPUs from PBS_NGPUS"
    return hosts, ""


def lsf(variable: str, environ: Mapping[str, str], read: Read) -> Hosts:
    """Read the hosts of LSF: a line for each core of a host.

    With IBM's CSM (CSM_ALLOCATION_ID), the first line is the launch node: the batch script runs
    there, but it is not a compute node. Without it, the script runs on the first of the hosts.
    """
    hosts = _listed(variable, environ, read)
    return (hosts[1:] if environ.get("CSM_ALLOCATION_ID") and len(hosts) > 1 else hosts), ""


def lsf_counts(variable: str, environ: Mapping[str, str], _read: Read) -> Hosts:
    """Read the hosts of LSF: each host followed by its number of cores, as in `h1 4 h2 4`."""
    words = environ[variable].split()
    if len(words) % 2 or not all(map(is_count, words[1::2])):
        raise bad(variable, environ[variable], "hosts, each with its number of cores: h1 4 h2 4")
    return _merged(((name, variable) for name in words[::2]), variable), ""


def lsf_hosts(variable: str, environ: Mapping[str, str], _read: Read) -> Hosts:
    """Read the hosts of LSF: a word for each core of a host."""
    return _merged(((name, variable) for name in environ[variable].split()), variable), ""


def grid_engine(variable: str, environ: Mapping[str, str], read: Read) -> Hosts:
    """Read the hosts of Grid Engine: `host slots queue processors` for each queue of a host."""
    path = environ[variable]
    places = []
    for where, words in _lines(path, _data(variable, path, read)):
        if len(words) < 2 or not is_count(words[1]):
            raise bad(where, " ".join(words), "'host slots queue processors'")
        places.append((words[0], where))
    return _merged(places, f"{variable}: {path}"), ""


def cobalt(variable: str, environ: Mapping[str, str], read: Read) -> Hosts:
    """Read the hosts of Cobalt: a line for each host."""
    return _listed(variable, environ, read), ""


def operator(variable: str, environ: Mapping[str, str], read: Read) -> Hosts | None:
    """Read the hosts in the MPI Operator's launcher pod: its workers, each with slotsPerWorker.

    Users set the variable to other files as well, so only the operator's path is read.
    slotsPerWorker is 1 by default, so 1 on all hosts says nothing about their devices.
    """
    from .hostfile import parse_hostfile

    path = environ[variable]
    if path != OPERATORS_HOSTFILE:
        return None
    hosts = parse_hostfile(_data(variable, path, read), path)
    if all(host.slots in {None, (0,)} for host in hosts):
        return [host._replace(slots=None) for host in hosts], ""
    return hosts, "slots from slotsPerWorker"


def _listed(variable: str, environ: Mapping[str, str], read: Read) -> list[Host]:
    path = environ[variable]
    places = []
    for where, words in _lines(path, _data(variable, path, read)):
        if len(words) > 1:
            raise bad(where, " ".join(words), "one host per line")
        places.append((words[0], where))
    return _merged(places, f"{variable}: {path}")


def _merged(places: Places, source: str) -> list[Host]:
    """Return each host once, in order of its first occurrence."""
    first: dict[str, str] = {}
    for name, where in places:
        first.setdefault(name, where)
    if not first:
        raise UsageError(f"{source}: names no hosts")
    return [_host(name, where) for name, where in first.items()]


def _host(name: str, where: str) -> Host:
    try:
        check_name(name)
    except UsageError as fault:
        raise located(fault, where, name) from None
    return Host(name, where=where)


def _gpus(path: str, read: Read) -> dict[str, tuple[Slot, ...]]:
    """Return the GPUs of each host in Torque's PBS_GPUFILE, which has lines such as `h1-gpu0`.

    They are the devices' own numbers: indices if every device is visible, and entries of the
    mask if Torque has set one. Without GPUs the file is empty or missing.
    """
    gpus: dict[str, list[Slot]] = {}
    for where, words in _lines(path, _data("PBS_GPUFILE", path, read, missing_ok=True)):
        match = _GPU.fullmatch(" ".join(words))
        if not match:
            raise bad(where, " ".join(words), "a GPU such as host-gpu0")
        gpus.setdefault(match[1], []).append(int(match[2]))
    return {name: tuple(dict.fromkeys(numbers)) for name, numbers in gpus.items()}


def _with_gpus(host: Host, gpus: Mapping[str, tuple[Slot, ...]]) -> Host:
    if host.name not in gpus:
        missing = f"PBS_GPUFILE lists no GPU of {host.name!r}"
        raise UsageError(f"{host.where}: {missing}; name the hosts to use with --host")
    return host._replace(slots=gpus[host.name])


def _lines(path: str, data: bytes) -> list[tuple[str, list[str]]]:
    """Return the place and the words of each line that is not blank."""
    lines = data.decode(errors="replace").split("\n")
    numbered = ((f"{path}:{n}", line.split()) for n, line in enumerate(lines, start=1))
    return [(where, words) for where, words in numbered if words]


def _data(variable: str, path: str, read: Read, *, missing_ok: bool = False) -> bytes:
    try:
        return read(path)
    except OSError as error:
        if missing_ok and isinstance(error, FileNotFoundError):
            return b""
        raise UsageError(f"{variable}: {path}: {reason(error)}") from error


READERS: Mapping[str, Callable[[str, Mapping[str, str], Read], Hosts | None]] = {
    "PBS_NODEFILE": pbs,
    "LSB_DJOB_HOSTFILE": lsf,
    "LSB_MCPU_HOSTS": lsf_counts,
    "LSB_HOSTS": lsf_hosts,
    "PE_HOSTFILE": grid_engine,
    "COBALT_NODEFILE": cobalt,
    **dict.fromkeys(OPERATORS_VARIABLES, operator),
}
"""The reader of each variable."""
