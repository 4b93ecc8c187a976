"""How node launchers that dial in reach the runner."""

from __future__ import annotations

from ..common.values import NamedTuple

DEFAULT_MASTER_PORT = 29500
"""DeepSpeed's and torchrun's default; used only where a port must be known before the start."""


DIAL_TIMEOUT = 5.0
"""Seconds for node 0 to answer a node that dials it, if the same command runs on every node."""


class DialIn(NamedTuple):
    """How node launchers that dial in reach the runner.

    Attributes:
        port: the TCP port that the runner listens on; None for any free one or, if the same command
            runs on every node, for the one after the master port.
        first: node 0's host name or address, if the same command runs on every node.
        node_rank: the rank of this node, if the same command runs on every node.
        token_file: a file with the secret that the nodes share; None for DSRUN_TOKEN.
    """

    port: int | None = None
    first: str = ""
    node_rank: int = 0
    token_file: str | None = None

    def known_port(self, master_port: int | None) -> int:
        """Return the port that node 0 listens on, which every node must know in advance."""
        return self.port or (master_port or DEFAULT_MASTER_PORT) + 1
