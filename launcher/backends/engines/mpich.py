"""MPICH: Hydra under its own name."""

from __future__ import annotations

from .hydra import HYDRA, Hydra


class Mpich(Hydra):
    """Runs MPICH's `mpiexec`."""

    mark = HYDRA
    tools = (*Hydra.tools, "mpiexec.mpich", "mpirun.mpich", "mpirun")
