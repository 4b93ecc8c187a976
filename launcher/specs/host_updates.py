"""Which hosts may take part, and where an elastic job looks for other hosts."""

from __future__ import annotations

from ..common.values import NamedTuple


class HostFilter(NamedTuple):
    """Which of the listed hosts take part, and with which slots.

    Attributes:
        include: the hosts and slots to use, as in --include: `NODE[:SLOT,...][@NODE...]`; "" for no
            such filter.
        exclude: the hosts and slots to leave out, likewise; "" for no such filter.
        num_nodes: only the first so many hosts take part; None for all.
        num_gpus: only the first so many slots of each host are used; None for all.
        accelerator: the kind of devices to count where slots are left out; None to detect it.
    """

    include: str = ""
    exclude: str = ""
    num_nodes: int | None = None
    num_gpus: int | None = None
    accelerator: str | None = None


class HostUpdates(NamedTuple):
    """Where an elastic job looks for added and removed hosts: a program, else a hostfile.

    Attributes:
        script: a command that prints one host per line; "" for none.
        hostfile: the hostfile that is watched; "" for none.
        hosts: which of the listed hosts take part.
    """

    script: str = ""
    hostfile: str = ""
    hosts: HostFilter = HostFilter()

    @property
    def name(self) -> str:
        """What lists the hosts, for messages."""
        return self.script or self.hostfile
