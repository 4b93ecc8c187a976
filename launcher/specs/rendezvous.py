"""The settings of torch's rendezvous, if it is used instead of dsrun's own rounds."""

from __future__ import annotations

from ..common.records import NamedTuple

UNNAMED = "none"
"""torchrun's default for --rdzv_id."""


class Rendezvous(NamedTuple):
    """The settings given to torch's agent.

    Attributes:
        backend: a name in torch's registry, or a plugin of `torchrun.handlers`.
        endpoint: the rendezvous endpoint, mostly HOST:PORT; "" for the backend's default.
        run_id: the job's name, equal on all nodes.
        least: the smallest number of nodes in a round.
        most: the largest number of nodes in a round.
        conf: settings of the backend, by name.
        local_addr: this node's address for the other nodes; "" to let torch detect it.
        restarts: the maximum number of restarts after failures.
        interval: seconds between the agent's checks of its workers.
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
        """The backend and its endpoint, for the user."""
        where = f" at {self.endpoint}" if self.endpoint else ""
        return f"--rdzv_backend {self.backend}{where}"

    @property
    def nodes(self) -> str:
        """The number of nodes, for the user."""
        from ..common.wording import counted

        least = f"{self.least} to " if self.least < self.most else ""
        return f"{least}{counted(self.most, 'node')}"
