"""`--requeue_on`: requeue a Slurm job that has ended with one of these exit codes."""

from __future__ import annotations

import shutil

from ...common.tell import tell

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping


def requeue(code: int, environ: Mapping[str, str]) -> None:
    """Requeue this Slurm job and log it; if Slurm refuses, log its message.

    A job that is no longer running has been cancelled, and is not requeued.
    """
    from ...backends.base import output_of

    job, restarts = environ["SLURM_JOB_ID"], environ.get("SLURM_RESTART_COUNT", "0")
    scontrol = shutil.which("scontrol") or "scontrol"
    state = output_of([scontrol, "--oneliner", "show", "job", job])
    if "JobState=RUNNING" not in state:
        return  # cancelled, or being requeued already
    # Before the call: Slurm ends this process as well.
    times = "once" if restarts == "1" else f"{restarts} times"
    tell(f"exit code {code}: requeueing Slurm job {job}, restarted {times} so far")
    refused = output_of([scontrol, "requeue", job]).strip()
    if refused:
        tell(f"scontrol requeue {job}: {refused}")
