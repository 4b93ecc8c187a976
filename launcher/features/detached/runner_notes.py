"""Events that end a detached job although the terminal does not, for a note at its start."""

from __future__ import annotations

from ...backends import name_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ...backends.base import Part
    from ...specs.job import JobSpec

SCHEDULERS = {
    "SLURM_JOB_ID": ("Slurm job", "script or salloc"),
    "PBS_JOBID": ("PBS job", "script or interactive shell"),
    "LSB_JOBID": ("LSF job", "script or interactive shell"),
    "COBALT_JOBID": ("Cobalt job", "script or interactive shell"),
}
"""By scheduler variable: the scheduler's name for a job, and the program whose exit ends it."""


def of_scheduler(spec: JobSpec, environ: Mapping[str, str]) -> str:
    """Return a note for a job inside the job of a scheduler, "" for any other."""
    for variable, (job, ends) in SCHEDULERS.items():
        if number := environ.get(variable):
            return (
                f"this job ends with {job} {number}, even if it is detached, and {job} {number}"
                f" ends when its {ends} exits; `dsrun-job wait {spec.job_id}` waits for this job"
            )
    return ""


def of_agent(parts: Sequence[Part], environ: Mapping[str, str]) -> str:
    """Return a note for a job that may reconnect to nodes with a key of the user's agent.

    paramiko knows which key was used; the program ssh does not tell, and may have used one.
    """
    if not environ.get("SSH_AUTH_SOCK"):
        return ""
    for part in parts:
        came = CAME.get(name_of(part.backend))
        if came and part.nodes and getattr(part.backend, "used_agent", True):
            return (
                f"the ssh key {came} from your agent ({environ['SSH_AUTH_SOCK']}): after the agent"
                " exits, as at logout, lost nodes cannot be reached again; with a key file without"
                " a passphrase they can"
            )
    return ""


CAME = {"ssh": "came", "openssh": "may have come"}
"""Backends that connect again; paramiko's knows whether a key was the agent's."""
