"""`--requeue_on`: requeue a Slurm job that ends with one of these exit codes."""

from __future__ import annotations

import os

from ...common.errors import DsrunError
from ...common.stderr import tell

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping


def requeueing(codes: Collection[int], job: Callable[[], int]) -> int:
    """Run a job, and requeue it if it ends with one of `codes`; return its exit code.

    Raises:
        DsrunError: the error of the job; its exit code counts as well.
    """
    try:
        code = job()
    except DsrunError as error:
        if error.exit_code in codes:
            requeue(error.exit_code, os.environ)
        raise
    if code in codes:
        requeue(code, os.environ)
    return code


def requeue(code: int, environ: Mapping[str, str]) -> None:
    """Requeue this Slurm job and log it; if Slurm refuses, log its message.

    A job that no longer runs has been cancelled, and is not requeued.
    """
    from ...common.program_output import output_of

    job, restarts = environ["SLURM_JOB_ID"], environ.get("SLURM_RESTART_COUNT", "0")
    state = output_of(["scontrol", "--oneliner", "show", "job", job])
    if "JobState=RUNNING" not in state:
        return  # cancelled, or being requeued already
    # Before the call: Slurm ends this process as well.
    times = "once" if restarts == "1" else f"{restarts} times"
    tell(f"exit code {code}: requeueing Slurm job {job}, restarted {times} so far")
    refused = output_of(["scontrol", "requeue", job]).strip()
    if refused:
        tell(f"scontrol requeue {job}: {refused}")
