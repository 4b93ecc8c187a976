"""The request for a preloader: its modules and the identity of the workers."""

from __future__ import annotations

import os

from ...common.records import NamedTuple
from ...node.workers.worker_specs import WorkerSpecs
from ...specs.environment import from_wire, to_wire
from ..stacks.node_outfit import with_recorder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from ...node.workers.prepare import NodeSetup


class PreloadRequest(NamedTuple):
    """The settings of a preloader.

    Attributes:
        python: the interpreter of the workers.
        folders: the folders that a worker searches first for modules.
        workdir: the folder that it runs in.
        env: the variables that all workers share.
    """

    python: bytes
    modules: tuple[str, ...]
    folders: tuple[str, ...]
    workdir: bytes
    env: Mapping[bytes, bytes]


def request(setup: NodeSetup) -> PreloadRequest:
    """Return the preloader request for the task of a node.

    Raises:
        DsrunError, ValueError: its workers cannot be started as requested.
    """
    env = WorkerSpecs(setup, lambda _: None).common()
    return PreloadRequest(
        python=setup.python,
        modules=setup.task.workers.preload,
        folders=tuple(map(to_wire, _folders(setup))),
        workdir=setup.workdir,
        env=with_recorder(env, setup.log_folder) if setup.task.hooked else env,
    )


def _folders(setup: NodeSetup) -> list[bytes]:
    """Return the first folders on a worker's path: the script's own, even through a link.

    The first folder of PYTHONPATH follows, if it is the workers' folder.
    """
    first = [setup.workdir] if setup.program.folder_first else []
    if setup.program.module:
        return [setup.workdir, *first]
    script = os.path.join(setup.workdir, from_wire(setup.program.script))
    return [os.path.dirname(os.path.realpath(script)), *first]
