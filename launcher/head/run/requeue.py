"""`--requeue_on`: hand a Slurm job back to the queue when it ends with a code that calls for it."""

from __future__ import annotations

import shutil
import sys

from ...common.errors import UsageError
from ...common.exit_codes import exit_codes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from ...cli.options import Options


def codes(options: Options, environ: Mapping[str, str]) -> frozenset[int]:
    """Return the exit codes of --requeue_on.

    Raises:
        UsageError: one is no exit code, or this is no Slurm job.
    """
    found = exit_codes("--requeue_on", options.requeue_on)
    if "SLURM_JOB_ID" not in environ:
        raise UsageError("--requeue_on: only inside a Slurm job (no SLURM_JOB_ID here)")
    if shutil.which("scontrol") is None:
        raise UsageError("--requeue_on: no `scontrol` on PATH, which requeues a job")
    return frozenset(found)


def requeue(code: int, environ: Mapping[str, str]) -> None:
    """Requeue this Slurm job and say so; a refusal of Slurm's is told, the exit code stays.

    A job that is no longer running has been cancelled, and stays so.
    """
    from ...backends.base import output_of

    job, restarts = environ["SLURM_JOB_ID"], environ.get("SLURM_RESTART_COUNT", "0")
    scontrol = shutil.which("scontrol") or "scontrol"
    state = output_of([scontrol, "--oneliner", "show", "job", job])
    if "JobState=RUNNING" not in state:
        return  # cancelled by somebody, or being requeued as it is
    # Before the call: Slurm ends this process as well.
    often = "once" if restarts == "1" else f"{restarts} times"
    _say(f"exit code {code}: requeueing Slurm job {job}, restarted {often} so far")
    refused = output_of([scontrol, "requeue", job]).strip()
    if refused:
        _say(f"scontrol requeue {job}: {refused}")


def _say(text: str) -> None:
    sys.stderr.write(f"dsrun: {text}\n")
    sys.stderr.flush()
