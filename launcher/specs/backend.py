"""How a backend starts node launchers."""

from __future__ import annotations

import sys

from ..common.values import NamedTuple


class BackendSettings(NamedTuple):
    """What a backend is made with; times in seconds.

    Attributes:
        python: the interpreter on the nodes.
        root: folder that holds the `launcher` package on this machine; "" for this one's.
        args: the user's own arguments for the backend's tool.
        connect_timeout: seconds for a host to answer.
        keepalive: seconds between signs of life of the session itself.
        path: the engine's program, or the folder it is in; "" to look on PATH.
        bind: dsrun binds cores, so that the engine must not.
        rank_per_task: the engine starts one task a rank, not one a node.
        elastic: the job may go on without a node.
        force_multi: this machine is reached like any other, over the backend.
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
