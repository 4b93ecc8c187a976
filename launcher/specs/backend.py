"""How a backend starts node launchers."""

from __future__ import annotations

import sys

from ..common.values import NamedTuple


class BackendSettings(NamedTuple):
    """The settings of a backend.

    Attributes:
        python: the interpreter on the nodes.
        root: the folder of the `launcher` package on this machine; "" for the running one.
        args: the user's arguments for the backend's tool.
        port: the port of sshd; None for whatever ssh would use.
        connect_timeout: seconds for a host to answer.
        keepalive: seconds between keepalive messages of an ssh session.
        accept_new_host_keys: host keys that are not known yet are accepted.
        path: the engine's program, or its folder; "" to search PATH.
        bind: dsrun binds cores, so the engine must not.
        rank_per_task: the engine starts one task per rank instead of one per node.
        elastic: the job can continue without a node.
        force_multi: this machine, too, is reached through the backend.
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
