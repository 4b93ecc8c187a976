"""The choice among listed hosts, and the list in which an elastic job looks for other hosts."""

from __future__ import annotations

from ..common.records import NamedTuple


class HostFilter(NamedTuple):
    """The choice of hosts from a list, and of their slots.

    Attributes:
        include: the hosts and slots to use, as in --include: `NODE[:SLOT,...][@NODE...]`; "" for no
            such filter.
        exclude: the hosts and slots to leave out, as in --exclude; "" for no such filter.
        num_nodes: the number of hosts to use, from the first on; None for all.
        num_gpus: the number of slots to use on each host, from the first on; None for all.
        accelerator: the kind of devices to count where slots are left out; None to detect it.
    """

    include: str = ""
    exclude: str = ""
    num_nodes: int | None = None
    num_gpus: int | None = None
    accelerator: str | None = None


class HostUpdates(NamedTuple):
    """The source of added and removed hosts for an elastic job: a program, else a hostfile.

    Attributes:
        script: a command that prints one host per line, or "".
        hostfile: the hostfile that is watched, or "".
        hosts: the choice among the listed hosts.
    """

    script: str = ""
    hostfile: str = ""
    hosts: HostFilter = HostFilter()

    @property
    def name(self) -> str:
        """The program or hostfile that lists the hosts, for messages."""
        return self.script or self.hostfile
