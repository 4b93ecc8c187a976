"""MVAPICH 2, 3 and 4: Hydra, with Hydra's own version text."""

from __future__ import annotations

from . import base
from .hydra import HYDRA, Hydra


class Mvapich(Hydra):
    """Runs MVAPICH's `mpiexec`."""

    mark = HYDRA
    tools = (*Hydra.tools, "mpirun")

    def binding_arguments(self) -> list[base.Argument]:
        """Return options that turn off its own binding if dsrun binds (user guides of 2 and 3)."""
        names = ("MV2_ENABLE_AFFINITY", "MVP_ENABLE_AFFINITY") if self._settings.bind else ()
        return [*super().binding_arguments(), *(("-genv", name, "0") for name in names)]
