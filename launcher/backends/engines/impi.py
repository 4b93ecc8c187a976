"""Intel MPI: its own Hydra.

Its `mpirun` is a script that runs whatever `mpiexec.hydra` is first on PATH, so it is not used.
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
    """Runs Intel MPI's `mpiexec.hydra`, which takes no counts behind the names of `-hosts`."""

    mark = "Intel(R) MPI"

    def argv(self, nodes: Sequence[Node], dial: base.Dial | None) -> list[str]:
        """Return the whole command, with a part behind a colon for every host of uneven ones."""
        places = engine.placements(nodes)
        if len({place.tasks for place in places}) == 1:
            return super().argv(nodes, dial)
        task = self.task_argv(dial)
        parts = [[":", "-host", p.host, "-n", str(p.tasks), *task] for p in places]
        joined = [word for part in parts for word in part]
        return [*self.command_line(self.common_arguments(places)), *joined[1:]]

    def arguments(self, places: Sequence[engine.Placement]) -> list[engine.Argument]:
        """Return mpiexec's arguments, for as many tasks on every host."""
        hosts = ",".join(place.host for place in places)
        each = places[0].tasks
        counts = [("-ppn", str(each)), ("-n", str(each * len(places)))]
        return [*self.common_arguments(places), ("-hosts", hosts), *counts]

    def control_address(self, address: str) -> engine.Argument:
        """Return what tells the hosts' agents where to dial: by an interface."""
        name = "" if "I_MPI_HYDRA_IFACE" in os.environ else interface_of(address)
        return ("-iface", name) if name else ()

    def folders(self) -> list[str]:
        """Return where I_MPI_ROOT, which Intel's own start-up file sets, has it."""
        root = os.environ.get("I_MPI_ROOT", "")
        return [os.path.join(root, "bin")] if root else []

    def binding_arguments(self) -> list[engine.Argument]:
        """Return what turns its pinning off, where dsrun binds (I_MPI_PIN, developer reference)."""
        return [("-genv", "I_MPI_PIN", "0")] if self._settings.bind else []

    def environ(self) -> dict[str, str]:
        """Return mpiexec's environment, with options for its ssh."""
        return self.with_ssh_options("I_MPI_HYDRA_BOOTSTRAP_EXEC_EXTRA_ARGS")
