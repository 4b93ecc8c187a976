"""Makes the folder of a job that is about to start."""

from __future__ import annotations

import shlex
import time

from ... import __version__
from ...common.errors import OutputError, in_words
from . import job_folder
from .process_identity import identity

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from ...specs.job import JobSpec


def new_folder(spec: JobSpec, environ: Mapping[str, str], pid: int, hold: str = "") -> str:
    """Make the folder of a job, and return its path.

    Args:
        spec: the job.
        environ: says where the folders are.
        pid: of the process that runs the job.
        hold: the name of the hold that this is, "" for none.

    Raises:
        OutputError: it cannot be made.
    """
    plan = spec.plan
    try:
        about = job_folder.About(
            job_id=spec.job_id,
            version=__version__,
            since=time.time(),
            program=shlex.join([plan.program.script, *plan.program.args]),
            workdir=spec.workdir,
            launcher=plan.launcher,
            nodes=len(plan.nodes),
            world_size=plan.world_size or 0,
            hold=hold,
            process=identity(pid),
        )
        return job_folder.create(environ, about)
    except OSError as error:
        raise OutputError(
            f"--detach: cannot keep the output of the job: {in_words(error)}; XDG_STATE_HOME names"
            " another folder"
        ) from None
