"""What MPICH, Intel MPI and MVAPICH share: the process manager Hydra, `mpiexec.hydra`."""

from __future__ import annotations

from ...common.network import addresses_towards
from . import base

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

HYDRA = "HYDRA build details"
"""In the version text of every Hydra but Intel's."""


class Hydra(base.Engine):
    """Runs `mpiexec` with the arguments that all of Hydra's descendants have."""

    tools: tuple[str, ...] = ("mpiexec.hydra", "mpiexec")
    aliases = (
        *(("host", "hosts"), ("f", "hosts"), ("hostfile", "hosts"), ("machinefile", "hosts")),
        *(("np", "n"), ("perhost", "ppn"), ("iface", "localhost"), ("binding", "bind-to")),
        *(("genvall", "genvnone"), ("genvlist", "genvnone")),
    )

    def arguments(self, places: Sequence[base.Placement]) -> list[base.Argument]:
        """Return mpiexec's arguments: each host with its tasks."""
        hosts = ",".join(f"{place.host}:{place.tasks}" for place in places)
        tasks = sum(place.tasks for place in places)
        return [*self.common_arguments(places), ("-hosts", hosts), ("-n", str(tasks))]

    def common_arguments(self, places: Sequence[base.Placement]) -> list[base.Argument]:
        """Return what says nothing of hosts; nothing of this machine's environment goes along."""
        addresses = addresses_towards([places[0].host, places[-1].host])[:1]
        control = [self.control_address(address) for address in addresses]
        return [*control, ("-genvnone",), ("-wdir", "/"), *self.binding_arguments()]

    def fault_tolerance(self) -> list[base.Argument]:
        """Return what has mpiexec go on when a process has died (MPICH, "Using the Hydra")."""
        return [("-disable-auto-cleanup",)]

    def control_address(self, address: str) -> base.Argument:
        """Return what tells the hosts' agents to dial this address of this machine.

        By default they dial its name, which on many machines is 127.0.1.1 or unknown elsewhere.
        """
        return ("-localhost", address)

    def binding_arguments(self) -> list[base.Argument]:
        """Return what turns the engine's own binding off, where dsrun binds."""
        return [("-bind-to", "none")] if self._settings.bind else []

    def environ(self) -> dict[str, str]:
        """Return mpiexec's environment, with options for its ssh."""
        return self.with_ssh_options("HYDRA_LAUNCHER_EXTRA_ARGS")
