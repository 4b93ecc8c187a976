"""Which hosts may take part, and where an elastic job learns of others."""

from __future__ import annotations

from ..common.values import NamedTuple


class HostFilter(NamedTuple):
    """Which of the hosts there are take part, and with which slots.

    Attributes:
        include, exclude: `NODE[:SLOT,...][@NODE...]`; "" for no such filter.
        num_nodes: only the first so many; None for all.
        num_gpus: only the first so many slots of each; None for all.
        accelerator: whose devices are counted where slots are left out; None for those found.
    """

    include: str = ""
    exclude: str = ""
    num_nodes: int | None = None
    num_gpus: int | None = None
    accelerator: str | None = None


class HostUpdates(NamedTuple):
    """Where an elastic job learns of hosts that come and go: a program, else a hostfile.

    Attributes:
        script: a command that prints a host a line; "" for none.
        hostfile: a file that is looked at; "" for none.
        hosts: which of those take part.
    """

    script: str = ""
    hostfile: str = ""
    hosts: HostFilter = HostFilter()

    @property
    def name(self) -> str:
        """What lists the hosts, for messages."""
        return self.script or self.hostfile
