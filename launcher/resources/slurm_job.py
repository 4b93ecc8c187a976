"""Ask Slurm about the job that the environment names, if Slurm itself did not set the variables.

The variables of salloc stay in shells that outlive the job, and do not tell the GPUs. On the nodes
of a job, Slurm itself has set them for the process (SLURMD_NODENAME, srun(1)), so no question is
needed there.
"""

from __future__ import annotations

import re

from ..common import executable
from ..common.errors import UsageError
from ..common.wording import counted
from ..specs.host import MAX_SLOTS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from .allocation import Allocation

LIMIT = 5.0
"""Seconds for Slurm to answer; without an answer the variables are taken as they are."""

PER_NODE = ("SLURM_GPUS_PER_NODE", "SLURM_TRES_PER_NODE")
"""Variables that `slurm` takes the GPUs of all nodes from."""

_OVER = {
    *("BOOT_FAIL", "CANCELLED", "COMPLETED", "COMPLETING", "DEADLINE", "FAILED", "NODE_FAIL"),
    *("OUT_OF_MEMORY", "PREEMPTED", "REVOKED", "TIMEOUT"),
}
"""States in which a job has no nodes, or soon has none (JOB STATE CODES of squeue(1))."""

_UNKNOWN = "Invalid job id"
_STATE = re.compile(r"\bJobState=(\w+)")
_NODES = re.compile(r" NodeList=([^\s(]+)")
_GPUS = re.compile(r"\bNodes=(\S+) [^\n]*?\bGRES=(\S*)")


def verified(held: Allocation, environ: Mapping[str, str]) -> Allocation:
    """Return an allocation with the GPUs that Slurm's job has, with a note if variables differ.

    Raises:
        UsageError: the job has ended, or has other nodes.
    """
    if held.scheduler != "slurm" or environ.get("SLURMD_NODENAME"):
        return held
    job = environ["SLURM_JOB_ID"]
    shown = _shown(job)
    check(environ, shown)
    _check_nodes(held, environ, shown)
    gpus = gpus_by_node(shown)
    asked = next(filter(environ.get, PER_NODE), "")
    wrong = [h for h in held.hosts if asked and gpus.get(h.name) not in {None, len(h.slots or ())}]
    if not wrong:
        return held
    first = wrong[0].name
    note = (
        f"{asked}={environ[asked]} is not for this job, which has {counted(gpus[first], 'GPU')} on"
        f" {first} (scontrol show job {job}): it is ignored; `unset {asked}`"
    )
    hosts = [h._replace(slots=tuple(range(gpus[h.name]))) if h in wrong else h for h in held.hosts]
    return held._replace(hosts=hosts, notes=(*held.notes, note))


def _check_nodes(held: Allocation, environ: Mapping[str, str], shown: str) -> None:
    """Check that a variable lists the nodes of the job: others would be left idle, or not answer.

    Raises:
        UsageError: the variable lists other nodes.
    """
    from .nodelist import expand_nodelist

    shows, variable = _NODES.findall(shown), held.hosts[0].where
    if len(held.groups) > 1 or len(shows) != 1:
        return
    if {*expand_nodelist(shows[0], "scontrol show job")} != {host.name for host in held.hosts}:
        raise UsageError(
            f"{variable}={environ[variable]}: this job has {shows[0]} (scontrol show job"
            f" {environ['SLURM_JOB_ID']}); `export {variable}='{shows[0]}'`, and choose nodes with"
            " --include"
        )


def check_running(environ: Mapping[str, str]) -> None:
    """Check that the job of the environment runs, for a program that will take its variables.

    Raises:
        UsageError: the job has ended.
    """
    if environ.get("SLURM_JOB_ID") and not environ.get("SLURMD_NODENAME"):
        check(environ, _shown(environ["SLURM_JOB_ID"]))


def check(environ: Mapping[str, str], shown: str) -> None:
    """Check Slurm's description of the job of an environment.

    Raises:
        UsageError: the job has ended.
    """
    states = {*_STATE.findall(shown)}
    if _UNKNOWN not in shown and not (states and states <= _OVER):
        return
    how = f"has ended ({', '.join(sorted(states))})" if states else "is no longer known to Slurm"
    raise UsageError(
        f"SLURM_JOB_ID={environ['SLURM_JOB_ID']}: this job {how}; its variables are left over in"
        f" this shell: `unset {ids(environ)}`, then name hosts, or request an allocation with"
        " --launcher slurm"
    )


def ids(environ: Mapping[str, str]) -> str:
    """Return the names of the variables that name the job; programs read one or the other."""
    return " ".join(name for name in ("SLURM_JOB_ID", "SLURM_JOBID") if name in environ)


def gpus_by_node(shown: str) -> dict[str, int]:
    """Return the GPUs that a job has on each node, from `scontrol --details show job`.

    Nodes without any are left out: Slurm may count something else there.
    """
    from .nodelist import expand_nodelist
    from .slurm import gpus_of

    found: dict[str, int] = {}
    for nodes, gres in _GPUS.findall(shown):
        count = gpus_of(re.sub(r"\([^)]*\)", "", gres))
        if 0 < count <= MAX_SLOTS:
            found |= dict.fromkeys(expand_nodelist(nodes, "scontrol show job"), count)
    return found


def _shown(job: str) -> str:
    """Return Slurm's description of a job, "" without an answer."""
    import subprocess

    try:
        ran = subprocess.run(
            [executable.located("scontrol"), "--details", "--oneliner", "show", "job", job],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=LIMIT,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return f"{ran.stdout}\n{ran.stderr}"
