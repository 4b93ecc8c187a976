"""Open MPI 4 and 5: one `mpirun` for all hosts."""

from __future__ import annotations

import os
import re
import shutil
import stat
from contextlib import suppress
from glob import escape, glob

from ...common.network import same_host
from ...resources.slurm import in_a_step
from ...resources.slurm_job import check_running
from . import base as engine

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ...specs.plan import Node

TEMPORARY = ("TMPDIR", "TEMP", "TMP")
"""Variables that name Open MPI's temporary folder (`opal_tmp_directory`)."""

BINDING = ("OMPI_MCA_hwloc_base_binding_policy", "PRTE_MCA_hwloc_default_binding_policy")
"""Variables with the user's own binding policy (Open MPI 4, and 5)."""

LONG_START = re.compile(r"[^.0-9]{50}")
"""Beginning of a name that overflows a buffer of ORTE (ORTE_MAX_NODE_PREFIX): ORTE aborts."""

PRRTE = re.compile(r"\(Open MPI\) (?:[5-9]|[0-9]{2,})\.")
"""Part of the version text since Open MPI 5; `mpirun` of Open MPI 4 has this name as well."""

TWO_DASHES = {"-bind-to", "-map-by", "-rank-by", "-runtime-options"}
"""Options that PRRTE knows with two dashes only; it takes the value of `-bind-to` for a program."""


class OpenMpi(engine.Engine):
    """Runs `mpirun`, which starts ssh through its `plm` framework."""

    mark = "open-mpi.org"
    tools = ("mpirun", "mpiexec", "mpirun.openmpi", "orterun")
    label = r"\[[^\]\s]*,([0-9]{1,9})\]<std(?:out|err)>: ?"
    # PRRTE's child and parent both set the group of ssh; the slower one fails once ssh runs.
    harmless = r"plm:ssh: Warning: setpgid\(\d+,\d+\) failed in parent"
    loss_pattern = r"[OP]RTE (was unable to reliably start|has lost comm)|daemon failed to report"
    aliases = (("H", "host"), ("hostfile", "host"), ("machinefile", "host"))

    def problem(self, nodes: Sequence[Node]) -> str:
        """Return why it cannot start these nodes, or ""; mpirun takes its nodes from Slurm's job.

        Raises:
            UsageError: Slurm's job has ended.
        """
        check_running(os.environ)
        return super().problem(nodes)

    def arguments(self, places: Sequence[engine.Placement]) -> list[engine.Argument]:
        """Return mpirun's arguments."""
        root: list[engine.Argument] = [("--allow-run-as-root",)] if os.getuid() == 0 else []
        hosts = ",".join(f"{place.host}:{place.tasks}" for place in places)
        own = [("--tag-output",), ("--host", hosts), ("--map-by", "slot")]
        return [*root, *own, *self._binding(), ("--wdir", "/")]

    @property
    def _is_orte(self) -> bool:
        return not PRRTE.search(self._version)

    def tasks(self, nodes: Sequence[Node]) -> Sequence[Node]:
        """Return these nodes in the order of its tasks: ORTE begins with this machine."""
        here = os.uname().nodename if self._is_orte else ""
        return sorted(nodes, key=lambda node: not same_host(node.host.name, here))

    def refusal(self, hosts: Sequence[str]) -> str:
        """Return why it cannot start on these hosts, or with the user's arguments, or ""."""
        if self._is_orte:
            long = next(filter(LONG_START.match, [*hosts, os.uname().nodename]), "")
            if long:
                return (
                    "Open MPI 4 aborts on names with 50 characters or more before the first digit,"
                    f" such as {long}; use a shorter name, Open MPI 5, or --launcher ssh"
                )
        else:
            words = [word.partition("=")[0] for word in self._settings.args]
            wrong = next(filter(TWO_DASHES.__contains__, words), "")
            if wrong:
                return f"--launcher_args: Open MPI 5 needs two dashes here: write -{wrong}"
        return super().refusal(hosts)

    def fault_tolerance(self) -> list[engine.Argument]:
        """Return options that make mpirun continue after a process has died, for ORTE or PRRTE."""
        if self._is_orte:
            return [("--mca", "orte_abort_on_non_zero_status", "0")]
        return [("--runtime-options", "error-nonzero-status=0,recoverable")]

    def environ(self) -> dict[str, str]:
        """Return mpirun's environment, with options for its ssh as ORTE or PRRTE names them."""
        orte = self._is_orte
        name = "OMPI_MCA_plm_rsh_args" if orte else "PRTE_MCA_plm_ssh_args"
        return {**self.with_ssh_options(name), **slots_of_the_job(os.environ)}

    def clean_up(self, pid: int) -> None:
        """Remove its session directory: `ompi.HOST.UID/pid.PID` (4.1), or `ompi.PID` (5.0)."""
        base = next(filter(None, map(os.environ.get, TEMPORARY)), "/tmp")
        for folder in glob(f"{escape(base)}/ompi.*.{os.getuid()}"):
            if _is_ours(folder):
                shutil.rmtree(f"{folder}/pid.{pid}", ignore_errors=True)
                with suppress(OSError):  # not empty: others are in use
                    os.rmdir(folder)
        if _is_ours(f"{base}/ompi.{pid}"):
            shutil.rmtree(f"{base}/ompi.{pid}", ignore_errors=True)

    def _binding(self) -> list[engine.Argument]:
        """Return options that turn off mpirun's binding, unless only the user binds.

        By default mpirun binds one or two tasks to a core each (mpirun(1)): all workers of a node
        launcher would share that core.
        """
        chosen = any(name in os.environ for name in BINDING)
        keep = not self._settings.bind and (chosen or self._settings.rank_per_task)
        return [] if keep else [("--bind-to", "none")]


def slots_of_the_job(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that give mpirun all nodes of a Slurm job, if dsrun is in a step.

    In a shell of `srun --pty`, the number of tasks is the step's, but the nodes are the job's: all
    tasks would run on the first node. Source: ras_slurm_module.c of Open MPI 4 and PRRTE.
    """
    nodes, cpus = environ.get("SLURM_JOB_NODELIST"), environ.get("SLURM_JOB_CPUS_PER_NODE")
    if not nodes or not cpus or not in_a_step(environ):
        return {}
    return {"SLURM_NODELIST": nodes, "SLURM_TASKS_PER_NODE": cpus}


def _is_ours(folder: str) -> bool:
    """Return whether this is the user's own folder, not a link: all users may write next to it."""
    try:
        status = os.lstat(folder)
    except OSError:
        return False
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid()
