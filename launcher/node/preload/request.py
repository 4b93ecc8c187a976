"""What a preloader is to import, and as whom."""

from __future__ import annotations

import os

from ...common.values import NamedTuple
from ...specs.environment import from_wire, to_wire
from ..workers.hooked import with_recorder
from ..workers.worker_specs import WorkerSpecs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..workers.prepare import NodeSetup


class PreloadRequest(NamedTuple):
    """What a preloader is started with.

    Attributes:
        python: the interpreter of the workers.
        modules: what it imports.
        folders: where a worker looks first for modules.
        workdir: the folder in which it runs.
        env: its variables: those that are the same for all workers.
    """

    python: bytes
    modules: tuple[str, ...]
    folders: tuple[str, ...]
    workdir: bytes
    env: Mapping[bytes, bytes]


def request(setup: NodeSetup) -> PreloadRequest:
    """Return what the task of a node needs.

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
    """Return what comes first on the path of a worker: the script's folder, not that of a link.

    What PYTHONPATH begins with follows, if that is the workers' folder.
    """
    first = [setup.workdir] if setup.program.folder_first else []
    if setup.program.module:
        return [setup.workdir, *first]
    script = os.path.join(setup.workdir, from_wire(setup.program.script))
    return [os.path.dirname(os.path.realpath(script)), *first]
