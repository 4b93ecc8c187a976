"""Variables of the user or of an engine that also place threads or processes."""

from __future__ import annotations

from ...common.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_REFUSED = "KMP_AFFINITY"
_KEPT = ("GOMP_CPU_AFFINITY", "OMP_PLACES")
# srun(1), mpirun of Open MPI 4 and 5, Intel MPI's and MVAPICH2's references, Hydra's mpiexec.
_ENGINES = (
    "SLURM_CPU_BIND",
    "OMPI_MCA_hwloc_base_binding_policy",
    "PRTE_MCA_hwloc_default_binding_policy",
    "I_MPI_PIN_DOMAIN",
    "MV2_CPU_BINDING_POLICY",
    "HYDRA_BINDING",
)


def conflicts(environ: Mapping[str, str]) -> str | None:
    """Return a note about variables of the user that also place threads; None without any.

    Raises:
        UsageError: KMP_AFFINITY is set: Intel's OpenMP would undo the binding. DeepSpeed
            refuses it as well.
    """
    if environ.get(_REFUSED):
        raise UsageError(
            f"{_REFUSED}={environ[_REFUSED]}: conflicts with core binding;"
            " unset it, or omit --bind_cores_to_rank"
        )
    kept = _set(environ, _KEPT)
    return kept and f"keeping {kept}: threads are placed accordingly within the bound cores"


def confinement(environ: Mapping[str, str], cores: int, workers: int) -> str | None:
    """Return a note if cores are fewer than workers and an engine may be the reason; else None."""
    engines = _set(environ, _ENGINES) if cores < workers else None
    return engines and f"usable cores here: {cores}, perhaps because of {engines}"


def _set(environ: Mapping[str, str], names: Iterable[str]) -> str | None:
    return ", ".join(f"{name}={environ[name]}" for name in names if environ.get(name)) or None
