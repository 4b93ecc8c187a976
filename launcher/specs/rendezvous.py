"""Torch's rendezvous, where it brings the nodes together in dsrun's place."""

from __future__ import annotations

from ..common.values import NamedTuple


class Rendezvous(NamedTuple):
    """What torch's agent is given.

    Attributes:
        backend: a name that torch's registry knows, or a plugin of `torchrun.handlers`.
        endpoint: where to meet, mostly HOST:PORT; "" for the backend's default.
        run_id: the job's name, the same on all nodes.
        least, most: nodes in a round.
        conf: settings of the backend, by name.
        local_addr: this node's address for the others; "" for what torch finds.
        restarts: of the workers after a failure.
        interval: seconds between two looks of the agent at its workers.
    """

    backend: str
    endpoint: str
    run_id: str
    least: int
    most: int
    conf: dict[str, str]
    local_addr: str
    restarts: int
    interval: float

    @property
    def words(self) -> str:
        """Where the nodes meet, for the user."""
        where = f" at {self.endpoint}" if self.endpoint else ""
        return f"--rdzv_backend {self.backend}{where}"

    @property
    def nodes(self) -> str:
        """How many nodes there are to be, for the user."""
        from ..common.wording import counted

        least = f"{self.least} to " if self.least < self.most else ""
        return f"{least}{counted(self.most, 'node')}"
