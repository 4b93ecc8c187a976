"""Choose the backend that starts the node launchers: the one given, or the first suitable one."""

from __future__ import annotations

from .. import backends
from ..backends.spec import Candidates
from ..common import executable
from ..common.errors import UsageError
from ..common.records import NamedTuple
from ..common.wording import either
from ..resources import source
from .shape import grows

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..backends.spec import Automatic
    from ..cli.options import Options
    from ..specs.host import Host

AUTO = "auto"


class BackendChoice(NamedTuple):
    """The chosen backend.

    Attributes:
        words: the name and the reason, as text for the user.
        noted: whether the choice is worth a line to the user.
        names_python: whether the node launchers run on a named Python, as in a hold.
    """

    name: str
    words: str
    noted: bool = False
    names_python: bool = False


def is_auto(options: Options) -> bool:
    """Return whether no launcher is specified."""
    return options.launcher.lower() == AUTO


def choose(options: Options, hosts: Sequence[Host], *, alone: bool) -> BackendChoice:
    """Return the backend of a job; with `alone`, one command runs on every node.

    Raises:
        UsageError: the launcher is unknown, cannot start this job, or none is installed.
    """
    name = options.launcher.lower()
    if name not in {AUTO, *backends.choosable()}:
        known = ", ".join([AUTO, *backends.choosable()])
        text = f"--launcher {options.launcher}: expected one of {known}"
        raise UsageError(f"{text}{_meant(name)}")
    if alone:
        return BackendChoice(backends.NO_LAUNCHER, f"{backends.NO_LAUNCHER} (--no_ssh)")
    remote = [host for host in hosts if options.force_multi or not source.is_here(host)]
    _check_addresses(remote)
    if name == AUTO:
        args = options.launcher_args
        return _first_able(Candidates(hosts, remote, options.ssh_port, args), options)
    spec = backends.BACKENDS[name]
    if spec.this_machine and remote:
        raise UsageError(f"--launcher {name}: {remote[0].name} is not this machine")
    if grows(options) and not spec.adds_hosts:
        able = either([name for name, spec in backends.BACKENDS.items() if spec.adds_hosts])
        raise UsageError(f"--launcher {name}: cannot add hosts to a running job; use {able}")
    return BackendChoice(name, name)


_SCHEDULERS = ("pbs", "torque", "lsf", "sge", "uge", "cobalt", "qsub", "bsub")
_CONTAINERS = ("kubernetes", "k8s", "kubeflow", "mpi-operator")
_MPIS = ("mpi", "mpirun", "mpiexec", "orte", "hydra")

_OTHER_NAMES = {
    **dict.fromkeys(_SCHEDULERS, "; leave it out: inside a job, dsrun finds the hosts"),
    **dict.fromkeys(_CONTAINERS, "; leave it out: inside a pod, dsrun finds the others"),
    **dict.fromkeys(_MPIS, "; name the kind of MPI: openmpi, mpich, impi or mvapich"),
    **dict.fromkeys(("srun", "sbatch", "salloc"), " (did you mean slurm?)"),
    **dict.fromkeys(("paramiko", "sshd", "rsh"), " (did you mean ssh?)"),
    **dict.fromkeys(("none", "no_ssh", "standard"), "; without a launcher: --no_ssh"),
    **dict.fromkeys(("intelmpi", "intel"), " (did you mean impi?)"),
    **dict.fromkeys(("ompi", "open-mpi", "open_mpi"), " (did you mean openmpi?)"),
    **dict.fromkeys(("localhost", "standalone"), " (did you mean local?)"),
}
"""Advice for other programs' names of launchers."""


def _meant(name: str) -> str:
    from ..cli.toml_file import meant

    return _OTHER_NAMES.get(name) or meant(name, backends.choosable())


def as_it_calls_them(choice: BackendChoice, hosts: list[Host]) -> list[Host]:
    """Return the hosts with the names that Slurm uses for them, if Slurm starts the nodes.

    Raises:
        UsageError: two names belong to one node.
    """
    if not backends.allocates(choice.name):
        return hosts
    import os

    from ..resources.allocation import find

    held = find(os.environ)
    nodes = {host.name for host in held.hosts} if held else set()
    if nodes.issuperset(host.name for host in hosts):
        return hosts
    from ..resources.aliases import meant

    own = meant([host.name for host in hosts], nodes)
    called: dict[str, Host] = {}
    for host in hosts:
        name = own.get(host.name, host.name)
        if name in called:
            first = called[name].name
            raise UsageError(
                f"{host.where or '--host'}: {host.name} and {first} are the same node of this"
                f" Slurm job, {name}; write it once, with all its slots"
            )
        called[name] = host
    return [host._replace(name=name) for name, host in called.items()]


def _check_addresses(remote: Sequence[Host]) -> None:
    """Check that the addresses of other hosts are complete, with an interface where one is needed.

    Raises:
        UsageError: an address lacks its interface.
    """
    addresses = [host for host in remote if ":" in host.name]
    if not addresses:
        return
    from ..resources.names import lacks_zone

    for host in addresses:
        if lacks_zone(host.name):
            raise UsageError(f"{host.where or '--host'}: {lacks_zone(host.name)}")


def _first_able(candidates: Candidates, options: Options) -> BackendChoice:
    """Return the first backend that is installed here and can reach these hosts.

    Raises:
        UsageError: there is no such backend, or the user's ssh configuration cannot be read.
    """
    why_not = ""
    backends_in_order = sorted(_automatic(options).items(), key=lambda item: item[1].place)
    for name, automatic in backends_in_order:
        before, why_not = why_not, automatic.against(candidates) or _missing(automatic.program)
        if not why_not:
            words = automatic.words.format(why_not=before)
            return BackendChoice(name, f"{name} ({words})", automatic.noted)
    installable = either([one.install for _, one in backends_in_order if one.install])
    raise UsageError(f"no way to reach other hosts: install {installable}")


def _automatic(options: Options) -> dict[str, Automatic]:
    """Return the backends to choose from; for jobs that grow, only those that can add hosts."""
    return {
        name: spec.automatic
        for name, spec in backends.BACKENDS.items()
        if spec.automatic and (spec.adds_hosts or not grows(options))
    }


def _missing(program: str) -> str:
    return "" if not program or executable.find(program) else f"{program} is not installed"
