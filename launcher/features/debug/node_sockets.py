"""The sockets by which workers can be debugged, one for each.

A worker inherits a listening abstract socket and, first on its PYTHONPATH, the folder of
`hook/sitecustomize`, which starts debugpy on that socket. No TCP port is opened on a node.
"""

from __future__ import annotations

import os
from contextlib import contextmanager

from ...control import local

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ...node.workers.spawn import StartingWorkers, WorkerSpec

HOOK = os.fsencode(os.path.join(os.path.dirname(os.path.abspath(__file__)), "hook"))

VARIABLE = b"DSRUN_DEBUG"
"""The worker's descriptor of its socket, and whether it waits for an editor: `5:wait`."""


def name(secret: str, rank: int) -> str:
    """Return the name of the socket of a rank."""
    return f"{secret}-{rank}"


@contextmanager
def outfit(
    specs: Sequence[WorkerSpec], starting: StartingWorkers
) -> Iterator[Sequence[WorkerSpec]]:
    """Give sockets to the workers that are debugged; they alone have them after the start.

    Raises:
        OSError: a socket cannot be made.
    """
    made, task = {}, starting.task
    policy = task.debug
    try:
        for spec in specs:
            if policy and policy.has(spec.rank):
                made[spec.rank] = local.listener("debug", name(task.debug_secret, spec.rank))
        wait = b"wait" if policy and policy.wait else b""
        yield [
            _with(spec, made[spec.rank].fileno(), wait) if spec.rank in made else spec
            for spec in specs
        ]
    finally:
        for one in made.values():
            one.close()


def _with(spec: WorkerSpec, fd: int, wait: bytes) -> WorkerSpec:
    path = spec.env.get(b"PYTHONPATH")
    folders = HOOK if path is None else HOOK + b":" + path
    env = {**spec.env, b"PYTHONPATH": folders, VARIABLE: b"%d:%s" % (fd, wait)}
    return spec._replace(env=env, fds=(*spec.fds, fd))
