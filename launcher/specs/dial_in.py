"""How node launchers that dial in reach the runner."""

from __future__ import annotations

from ..common.values import NamedTuple

DEFAULT_MASTER_PORT = 29500
"""DeepSpeed's and torchrun's default; here only where a port must be known before the start."""


DIAL_TIMEOUT = 5.0
"""Seconds for node 0 to answer whoever dials it, where the same command runs on every node."""


class DialIn(NamedTuple):
    """How node launchers that dial in reach the runner.

    Attributes:
        port: that the runner listens on; None for any, or, where the same command runs on every
            node, for the one after the master port.
        first: where node 0 is, for nodes that run the same command.
        node_rank: which node this process is, where the same command runs on every node.
        token_file: a file with the secret that the nodes share; None for DSRUN_TOKEN.
    """

    port: int | None = None
    first: str = ""
    node_rank: int = 0
    token_file: str | None = None

    def known_port(self, master_port: int | None) -> int:
        """Return the port that node 0 listens on, which every node must know beforehand."""
        return self.port or (master_port or DEFAULT_MASTER_PORT) + 1
