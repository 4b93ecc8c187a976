"""The variables that MPI launchers set in each of their tasks. Pure.

Source: mpirun(1) of Open MPI 4 and 5, MPICH's Hydra and Intel MPI (PMI-1), MVAPICH2's user guide,
mpiexec(1) of HPE's PALS.
"""

from __future__ import annotations

from ..common.records import NamedTuple


class TaskVariables(NamedTuple):
    """The variables of one launcher.

    Attributes:
        rank: the task's index.
        size: the number of tasks.
        local_size: the number of tasks on this host.
        once: the command that starts one task per node, without their number.
    """

    rank: str
    size: str
    local_size: str
    once: str


OPEN_MPI = TaskVariables(
    "OMPI_COMM_WORLD_RANK",
    "OMPI_COMM_WORLD_SIZE",
    "OMPI_COMM_WORLD_LOCAL_SIZE",
    "mpirun --map-by ppr:1:node",
)
"""The variables of Open MPI, and of Spectrum MPI."""

MVAPICH2 = TaskVariables(
    "MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_LOCAL_SIZE", "mpiexec -ppn 1"
)

HYDRA = TaskVariables("PMI_RANK", "PMI_SIZE", "MPI_LOCALNRANKS", "mpiexec -ppn 1")
"""The variables of MPICH and Intel MPI."""

PALS = TaskVariables("PALS_RANKID", "PMI_SIZE", "PMI_LOCAL_SIZE", "mpiexec -ppn 1")

LAUNCHERS = (OPEN_MPI, MVAPICH2, HYDRA, PALS)
"""The launchers, in the order in which they are tried: others set Hydra's variables, too."""
