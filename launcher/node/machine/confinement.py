"""The reason why workers have fewer CPUs than the machine, and the remedy.

This is imported only if workers have fewer CPUs.
"""

from __future__ import annotations

import os

from ....accelerator.hardware import sysfs
from ...common import system
from ...common.cpu_list import format_cpus, kernels_list
from ...common.wording import counted
from . import capacity

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

_BINDERS = (
    (("OMPI_COMM_WORLD_",), "Open MPI's mpirun", "mpirun --bind-to none"),
    (("I_MPI_INFO_", "I_MPI_HYDRA_"), "Intel MPI's mpirun", "I_MPI_PIN=0"),
    (("MV2_COMM_WORLD_", "MVP_COMM_WORLD_"), "MVAPICH's mpirun", "MV2_ENABLE_AFFINITY=0"),
    (("PALS_RANKID",), "PALS's mpiexec", "mpiexec --cpu-bind none"),
    (("HYDI_", "HYDRA_", "MPI_LOCAL"), "Hydra's mpiexec", "mpiexec -bind-to none"),
    (("SLURM_CPU_BIND", "SLURM_STEP_ID"), "srun", "srun --cpu-bind=none, or more --cpus-per-task"),
)
"""Prefixes of variables that a launcher sets for its tasks, which it may bind, and its option
against binding: the manuals of mpirun(1), Intel MPI, MVAPICH2, PALS, Hydra and srun(1)."""

_ANYBODY = (
    "whatever started it (taskset, numactl, an MPI launcher, srun)",
    "run without taskset, or with mpirun --bind-to none or srun --cpu-bind=none",
)
_ENGINE = ("the launcher", "--launcher_args '--bind-to none' (Open MPI)")

_CPUSETS = ("cpuset.cpus.effective", "cpuset.effective_cpus", "cpuset.cpus")
"""Files of cgroups with the CPUs that are allowed (cgroup-v2.rst, cgroup-v1/cpusets.rst)."""


def note(
    workers: int,
    cpus: float,
    environ: Mapping[str, str],
    by_engine: bool = False,
    *,
    online: int | None = None,
    root: str = "/",
) -> str:
    """Return why this number of workers has fewer CPUs; "" if the machine has no more.

    Args:
        workers: the number of workers on this node.
        cpus: the number of CPUs that they may use at a time (`capacity.cpus`).
        environ: the environment of this process, as its launcher made it.
        by_engine: whether dsrun has chosen the launcher that has started this process.
        online: the number of CPUs of this machine; None to read it.
        root: the folder that contains /proc and /sys.
    """
    there = online or os.cpu_count() or 1
    if cpus >= min(workers, there):
        return ""
    who, undo = _quota(cpus, root) or _cpuset(cpus, environ, root) or _binder(environ, by_engine)
    share = f"{counted(workers, 'worker')} share{'s' * (workers == 1)} {cpus:g} of"
    return f"{share} {counted(there, 'CPU')}, because of {who}; to undo that: {undo}"


def _quota(cpus: float, root: str) -> tuple[str, str] | None:
    for folder, quota in capacity.quotas(root):
        if quota == cpus:
            undo = "a larger --cpus (container), limits.cpu (pod) or CPUQuota (systemd)"
            return f"the CPU quota of {folder}", undo
    return None


def _cpuset(cpus: float, environ: Mapping[str, str], root: str) -> tuple[str, str] | None:
    """Return the innermost cpuset if it alone leaves this number of CPUs."""
    for folder in capacity.cgroups("cpuset", root):
        text = next(filter(None, (sysfs.line(f"{folder}/{name}") for name in _CPUSETS)), "")
        if not text:
            continue
        if len(kernels_list(text)) != cpus:
            return None
        undo = "a larger --cpuset-cpus for the container, or more CPUs for the job or the pod"
        if environ.get("SLURM_JOB_ID"):
            undo = "more --cpus-per-task for sbatch or salloc"
        return f"the cpuset {text} of {folder}", undo
    return None


def _binder(environ: Mapping[str, str], by_engine: bool) -> tuple[str, str]:
    """Return the likely originator of this process's affinity, and a remedy."""
    found = _ENGINE if by_engine else _ANYBODY
    for prefixes, who, undo in _BINDERS:
        if any(name.startswith(prefixes) for name in environ):
            found = (who, undo)
            break
    who, undo = found
    return f"{who}, which bound dsrun to CPU {format_cpus(system.sched_getaffinity(0))}", undo
