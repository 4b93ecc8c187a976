"""Backends, which start node launchers: the table of all backends, and a function to load one."""

from __future__ import annotations

from ..common import entry
from .automatic import not_for_paramiko, other_hosts, outside_slurm
from .spec import Automatic, BackendSpec, TaskIdentity

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ..specs.backend import BackendSettings
    from .base import Backend

LOCAL = "local"
"""The backend for a node launcher on this machine."""

NO_LAUNCHER = "none"
"""The backend for `--no_ssh`."""

PMI = "PMI_RANK"
"""A variable set by MPICH's Hydra and Intel MPI, and by launchers that are built on Hydra."""

PMIX = "PMIX_RANK"
"""A variable set by Open MPI 5, and by MPICH if it was built with PMIx."""

BACKENDS = {
    LOCAL: BackendSpec(
        ".local:Local",
        this_machine=True,
        automatic=Automatic(2, "only this machine", against=other_hosts),
    ),
    "ssh": BackendSpec(
        ".ssh.paramiko:Ssh",
        adds_hosts=True,
        automatic=Automatic(
            place=3,
            words="paramiko is installed; --launcher openssh uses the ssh program",
            against=not_for_paramiko,
            install="paramiko",
        ),
    ),
    "openssh": BackendSpec(
        ".ssh.openssh:OpenSSH",
        adds_hosts=True,
        automatic=Automatic(
            place=4,
            words="the ssh program; {why_not}",
            program="ssh",
            install="OpenSSH's client",
            noted=True,  # paramiko is passed over only for a reason in the user's setup
        ),
    ),
    "pdsh": BackendSpec(
        ".ssh.pdsh:Pdsh",
        automatic=Automatic(5, "neither paramiko nor ssh is installed", "pdsh", install="pdsh"),
    ),
    "openmpi": BackendSpec(
        ".engines.openmpi:OpenMpi", TaskIdentity(("OMPI_COMM_WORLD_RANK", PMIX))
    ),
    "mpich": BackendSpec(".engines.mpich:Mpich", TaskIdentity((PMI, PMIX, "PALS_RANKID"))),
    "impi": BackendSpec(".engines.impi:IntelMpi", TaskIdentity((PMI, PMIX))),
    "mvapich": BackendSpec(
        ".engines.mvapich:Mvapich",
        TaskIdentity(("MV2_COMM_WORLD_RANK", "MVP_COMM_WORLD_RANK", PMI)),
    ),
    "slurm": BackendSpec(
        ".engines.slurm:Slurm",
        TaskIdentity(("SLURM_PROCID",), ("SLURMD_NODENAME",)),
        allocates=True,
        automatic=Automatic(1, "this is inside the job, so srun is used", "srun", outside_slurm),
    ),
    NO_LAUNCHER: BackendSpec(".none:NoLauncher", joins=True),
}
"""Every backend by name. Its module is imported when it is used.

Sources of the variables: `resources.mpi`, the MVAPICH 3 user guide and srun(1).
"""


def choosable() -> dict[str, BackendSpec]:
    """Return the backends that `--launcher` accepts, besides auto."""
    return {name: spec for name, spec in BACKENDS.items() if not spec.joins}


def allocates(name: str) -> bool:
    """Return whether `--launcher NAME` requests an allocation outside of one."""
    spec = BACKENDS.get(name.lower())
    return spec is not None and spec.allocates


def load(name: str, settings: BackendSettings) -> Backend:
    """Return the backend with this name, which must be in BACKENDS."""
    make: Callable[[BackendSettings], Backend] = entry.load(BACKENDS[name].path, __name__)
    return make(settings)


def name_of(backend: object) -> str:
    """Return a backend's name in the table."""
    kind = type(backend)
    path = f"{kind.__module__}:{kind.__name__}"
    return next(name for name, spec in BACKENDS.items() if path.endswith(spec.path))
