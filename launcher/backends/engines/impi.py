"""Intel MPI: its own Hydra.

Its `mpirun` is a script that runs the first `mpiexec.hydra` on PATH, and is not used.
"""

from __future__ import annotations

import os

from ...common.network import interface_of
from .. import base
from . import base as engine
from .hydra import Hydra

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...specs.plan import Node


class IntelMpi(Hydra):
    """Runs Intel MPI's `mpiexec.hydra`, which accepts no counts in `-hosts`."""

    mark = "Intel(R) MPI"

    def argv(self, nodes: Sequence[Node], dial: base.DialBack | None) -> list[str]:
        """Return the whole command; if counts differ, each host has a part after a colon."""
        places = engine.placements(nodes)
        if len({place.tasks for place in places}) == 1:
            return super().argv(nodes, dial)
        task = self.task_argv(dial)
        parts = [[":", "-host", p.host, "-n", str(p.tasks), *task] for p in places]
        joined = [word for part in parts for word in part]
        return [*self.command_line(self.common_arguments(places)), *joined[1:]]

    def arguments(self, places: Sequence[engine.Placement]) -> list[engine.Argument]:
        """Return mpiexec's arguments for an equal number of tasks on every host."""
        hosts = ",".join(place.host for place in places)
        each = places[0].tasks
        counts = [("-ppn", str(each)), ("-n", str(each * len(places)))]
        return [*self.common_arguments(places), ("-hosts", hosts), *counts]

    def control_address(self, address: str) -> engine.Argument:
        """Return the argument that tells the hosts' agents where to dial: an interface."""
        name = "" if "I_MPI_HYDRA_IFACE" in os.environ else interface_of(address)
        return ("-iface", name) if name else ()

    def folders(self) -> list[str]:
        """Return the folder in I_MPI_ROOT, which Intel's setup script sets."""
        root = os.environ.get("I_MPI_ROOT", "")
        return [os.path.join(root, "bin")] if root else []

    def binding_arguments(self) -> list[engine.Argument]:
        """Return options that turn off pinning if dsrun binds (I_MPI_PIN, developer reference)."""
        return [("-genv", "I_MPI_PIN", "0")] if self._settings.bind else []

    def environ(self) -> dict[str, str]:
        """Return mpiexec's environment, with options for its ssh."""
        return self.with_ssh_options("I_MPI_HYDRA_BOOTSTRAP_EXEC_EXTRA_ARGS")
