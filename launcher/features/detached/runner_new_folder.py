"""Makes the folder of a job that is about to start."""

from __future__ import annotations

import time

from ... import __version__
from ...common.errors import OutputError, in_words
from ...specs.program import command_lines
from . import runner_job_folder as job_folder
from .runner_process_identity import identity

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ...specs.job import JobSpec
    from ...specs.roles import RoleSpec


def new_folder(
    spec: JobSpec,
    environ: Mapping[str, str],
    pid: int,
    hold: str = "",
    roles: Sequence[RoleSpec] = (),
) -> str:
    """Make the folder of a job, and return its path.

    Args:
        spec: the job.
        environ: says where the folders are.
        pid: the pid of the process that runs the job.
        hold: the name of this hold, or "".
        roles: its roles; none if it has one program.

    Raises:
        OutputError: the folder cannot be made.
    """
    plan = spec.plan
    programs = {role.name: role.job.plan for role in roles} or {"": plan}
    try:
        about = job_folder.About(
            job_id=spec.job_id,
            version=__version__,
            since=time.time(),
            program=command_lines({name: one.program for name, one in programs.items()}),
            workdir=spec.workdir,
            launcher=plan.launcher,
            nodes=len(plan.nodes),
            world_size=sum(one.world_size or 0 for one in programs.values()),
            hold=hold,
            roles={role.name: role.ends for role in roles},
            process=identity(pid),
        )
        return job_folder.create(environ, about)
    except OSError as error:
        error.filename = error.filename or job_folder.root(environ)  # of a full disk
        raise OutputError(
            f"--detach: cannot save the output of the job: {in_words(error)}; XDG_STATE_HOME names"
            " another folder"
        ) from None
