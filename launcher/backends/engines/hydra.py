"""The common part of MPICH, Intel MPI and MVAPICH: the process manager Hydra, `mpiexec.hydra`."""

from __future__ import annotations

from ...common.errors import UsageError
from ...common.network import addresses_towards
from . import base

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

HYDRA = "HYDRA build details"
"""Part of the version text of every Hydra but Intel's."""


def best(addresses: Sequence[str]) -> Sequence[str]:
    """Return the first IPv4 address, else the first of all, if any. Pure."""
    return [*(one for one in addresses if ":" not in one), *addresses][:1]


class Hydra(base.Engine):
    """Runs `mpiexec` with the arguments that all MPIs based on Hydra accept."""

    tools: tuple[str, ...] = ("mpiexec.hydra", "mpiexec")
    label = r"\[([0-9]{1,9})\](?: |$)"
    aliases = (
        *(("host", "hosts"), ("f", "hosts"), ("hostfile", "hosts"), ("machinefile", "hosts")),
        *(("np", "n"), ("perhost", "ppn"), ("iface", "localhost"), ("binding", "bind-to")),
        *(("genvall", "genvnone"), ("genvlist", "genvnone"), ("l", "prepend-rank")),
    )

    def arguments(self, places: Sequence[base.Placement]) -> list[base.Argument]:
        """Return mpiexec's arguments: each host with its tasks."""
        hosts = ",".join(f"{place.host}:{place.tasks}" for place in places)
        tasks = sum(place.tasks for place in places)
        return [*self.common_arguments(places), ("-hosts", hosts), ("-n", str(tasks))]

    def common_arguments(self, places: Sequence[base.Placement]) -> list[base.Argument]:
        """Return the arguments that do not name the hosts; no variables are passed on."""
        addresses = [] if self.chosen() else addresses_towards([places[0].host, places[-1].host])
        control = [self.control_address(address) for address in best(addresses)]
        own = [("-genvnone",), ("-wdir", "/"), ("-prepend-rank",)]
        return [*control, *own, *self.binding_arguments()]

    def fault_tolerance(self) -> list[base.Argument]:
        """Return options that keep mpiexec going after a process has died ("Using the Hydra")."""
        return [("-disable-auto-cleanup",)]

    def chosen(self) -> bool:
        """Return whether the user has given the address that the hosts' agents dial."""
        theirs = self._settings.args
        return any(self._key(theirs[at:]) == "localhost" for at in range(len(theirs)))

    def control_address(self, address: str) -> base.Argument:
        """Return the argument that makes the hosts' agents dial this address of this machine.

        By default they dial this machine's name, often 127.0.1.1 or unknown on other hosts.

        Raises:
            UsageError: the address is of IPv6; Hydra cuts it at its first colon, and then waits.
        """
        if ":" in address:
            raise UsageError(
                f"--launcher {self._name}: this machine reaches the hosts over IPv6 alone"
                f" ({address}), which its agents cannot dial; use --launcher ssh"
            )
        return ("-localhost", address)

    def binding_arguments(self) -> list[base.Argument]:
        """Return the arguments that turn off the engine's own binding, if dsrun binds."""
        return [("-bind-to", "none")] if self._settings.bind else []

    def environ(self) -> dict[str, str]:
        """Return mpiexec's environment, with options for its ssh."""
        return self.with_ssh_options("HYDRA_LAUNCHER_EXTRA_ARGS")
