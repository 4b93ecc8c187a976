"""Settings for starting node launchers, and for node launchers that dial in."""

from __future__ import annotations

import sys

from ..common.records import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .container import ContainerSpec

DEFAULT_MASTER_PORT = 29500
"""DeepSpeed's and torchrun's default; used only where a port must be known before the start."""

DIAL_TIMEOUT = 5.0
"""Seconds for node 0 to answer a node that dials it, if one command runs on every node."""


class BackendSettings(NamedTuple):
    """The settings of a backend.

    Attributes:
        python: the interpreter on the nodes.
        root: the folder of the `launcher` package on this machine; "" for the running one.
        args: the user's arguments for the backend's tool.
        port: the port of sshd; None for ssh's own choice.
        connect_timeout: seconds for a host to answer.
        keepalive: seconds between keepalive messages of an ssh session.
        accept_new_host_keys: whether unknown host keys are accepted.
        path: the engine's program, or its folder; "" to search PATH.
        bind: whether dsrun binds cores, and the engine must not.
        rank_per_task: whether the engine starts one task per rank instead of one per node.
        elastic: whether the job can continue without a node.
        force_multi: whether this machine, too, is reached through the backend.
        container: the container in which node launchers run, or None.
    """

    python: str = sys.executable
    root: str = ""
    args: tuple[str, ...] = ()
    port: int | None = None
    connect_timeout: float = 10.0
    keepalive: float = 5.0
    accept_new_host_keys: bool = False
    path: str = ""
    bind: bool = False
    rank_per_task: bool = False
    elastic: bool = False
    force_multi: bool = False
    container: ContainerSpec | None = None

    @property
    def lane_entry(self) -> tuple[str, ...]:
        """The words with which a lane of a role enters the role's own container; () without one."""
        return self.container.entry if self.container and self.container.of_role else ()

    def for_run(self, spec: BackendSettings) -> BackendSettings:
        """Return these settings of a fleet for a run, which may have a role's own container."""
        return self._replace(container=spec.container) if spec.lane_entry else self


class DialIn(NamedTuple):
    """Settings for node launchers that dial the runner.

    Attributes:
        port: the TCP port that the runner listens on; None for any free port or, if one command
            runs on every node, for the port after the master port.
        first: node 0's host name or address, if one command runs on every node.
        node_rank: the rank of this node, if one command runs on every node.
        token_file: a file with the secret that the nodes share; None for DSRUN_TOKEN.
    """

    port: int | None = None
    first: str = ""
    node_rank: int = 0
    token_file: str | None = None

    def known_port(self, master_port: int | None) -> int:
        """Return the port that node 0 listens on, which every node must know in advance."""
        return self.port or (master_port or DEFAULT_MASTER_PORT) + 1
