"""Open MPI 4 and 5: one `mpirun` for all hosts."""

from __future__ import annotations

import os

from . import engine

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

BINDING = ("OMPI_MCA_hwloc_base_binding_policy", "PRTE_MCA_hwloc_default_binding_policy")
"""Where a user's own binding policy stands in the environment (Open MPI 4, and 5)."""


class OpenMpi(engine.Engine):
    """Runs `mpirun`, whose ssh is the `plm` framework's."""

    name = "openmpi"
    mark = "open-mpi.org"
    tools = ("mpirun", "mpiexec", "mpirun.openmpi", "orterun")
    breaks = r"[OP]RTE (was unable to reliably start|has lost comm)|daemon failed to report"
    aliases = (("H", "host"), ("hostfile", "host"), ("machinefile", "host"))

    def words(self, places: Sequence[engine.Placement]) -> list[engine.Words]:
        """Return mpirun's arguments."""
        root: list[engine.Words] = [("--allow-run-as-root",)] if os.getuid() == 0 else []
        hosts = ",".join(f"{place.host}:{place.tasks}" for place in places)
        return [*root, ("--host", hosts), ("--map-by", "slot"), *self._binding(), ("--wdir", "/")]

    def lasting(self) -> list[engine.Words]:
        """Return what has mpirun go on when a process has died: ORTE's word for it, or PRRTE's."""
        if "OpenRTE" in self._version:
            return [("--mca", "orte_abort_on_non_zero_status", "0")]
        return [("--runtime-options", "error-nonzero-status=0,recoverable")]

    def environ(self) -> dict[str, str]:
        """Return mpirun's environment, with options for its ssh; Open MPI 5 knows the name too."""
        return self.with_ssh_options("OMPI_MCA_plm_rsh_args")

    def _binding(self) -> list[engine.Words]:
        """Return nothing where the user has chosen a binding of mpirun's, and dsrun binds none.

        By default mpirun binds one or two tasks to a core each (mpirun(1)): all workers of a node
        launcher would share that core.
        """
        chosen = any(name in os.environ for name in BINDING)
        keep = not self._settings.bind and (chosen or self._settings.rank_per_task)
        return [] if keep else [("--bind-to", "none")]
