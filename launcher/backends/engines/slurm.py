"""Slurm: one `srun` inside an allocation; no ssh, no hostfile."""

from __future__ import annotations

import os

from ...common.network import same_host
from ...resources import allocation
from .. import base
from ..events import EngineOutput
from . import base as engine

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...common.loop import Loop
    from ...specs.backend import BackendSettings
    from ...specs.plan import Node
    from ..events import Emit

OF_TASKS = (
    *("SLURM_CPUS_PER_TASK", "SRUN_CPUS_PER_TASK", "SLURM_GPUS_PER_TASK", "SLURM_TRES_PER_TASK"),
    *("SLURM_NTASKS_PER_GPU", "SLURM_NTASKS_PER_CORE", "SLURM_NTASKS_PER_SOCKET"),
    *("SLURM_GPU_BIND", "SLURM_DISTRIBUTION"),
)
"""Variables that srun applies to each task (srun(1)), as set by sbatch.

They are meant for workers. A node launcher, one task per node, would get one worker's part of the
node: one GPU of eight, or the cores of one rank.
"""

IN_TOTAL = ("SLURM_GPUS", "SLURM_GPUS_PER_TASK")
"""Variables of a job whose GPUs were requested as a number for all nodes together.

Slurm 22.05 gives a step that overlaps with others only some of them.
"""

WAITS = (
    "srun: waits if other steps of this job have its GPUs, as these were requested in total (--gpus"
    " or --gpus-per-task); squeue --steps names the steps"
)


class Slurm(engine.Engine):
    """Runs `srun`, with one part for every component of a heterogeneous job."""

    tools = ("srun",)
    label = r"([0-9]{1,9}):(?: |$)"
    # Said to any --cpu-bind, even `none`, without a task plugin that binds (task/none).
    harmless = r"^srun: .*lacks support for (?:cpu|memory) binding$"
    aliases = (
        *(("N", "nodes"), ("n", "ntasks"), ("w", "nodelist"), ("D", "chdir")),
        *(("i", "input"), ("l", "label"), ("K", "kill-on-bad-exit"), ("m", "distribution")),
        ("exclusive", "overlap"),
    )

    def __init__(self, settings: BackendSettings) -> None:
        super().__init__(settings)
        self._held = allocation.find(os.environ)

    def problem(self, nodes: Sequence[Node]) -> str:
        """Return why it cannot start these nodes, or ""."""
        held = self._held
        if held is None or held.scheduler != "slurm":
            return (
                "--launcher slurm: this is not inside a Slurm job (no SLURM_JOB_NODELIST);"
                " start dsrun from a script for sbatch, or after salloc"
            )
        strange = [node.host.name for node in nodes if not self._names([node.host.name])]
        if strange:
            names = ",".join(host.name for host in held.hosts)
            return f"--launcher slurm: {held.words} has no host {strange[0]}; it has {names[:200]}"
        return super().problem(nodes)

    def argv(self, nodes: Sequence[Node], dial: base.Dial | None) -> list[str]:
        """Return srun's command, with a part after a colon for every further component."""
        groups, argv = self._held.groups if self._held else (), super().argv
        if len(groups) < 2:
            return argv(nodes, dial)
        parts = [
            [f"--het-group={at}", *argv(mine, dial)[1:]]
            for at, group in enumerate(groups)
            if (mine := [node for node in nodes if set(self._names([node.host.name])) & {*group}])
        ]
        joined = [word for part in parts for word in (":", *part)]
        return [self._tool or "srun", *joined[1:]]

    def arguments(self, places: Sequence[engine.Placement]) -> list[engine.Argument]:
        """Return srun's arguments."""
        settings = self._settings
        hosts = self._names([place.host for place in places])
        tasks = sum(place.tasks for place in places)
        return [
            (f"--nodes={len(hosts)}",),
            (f"--ntasks={tasks}",),
            *(_a_rank(hosts, places) if settings.rank_per_task else self._a_node(hosts)),
            *([] if settings.elastic else [("--kill-on-bad-exit=1",)]),
            ("--input=none",),
            ("--label",),
            ("--chdir=/",),
            *([("--cpu-bind=none",)] if self._unbinds() else []),
            *([("--overlap",)] if self._shares() else []),
        ]

    def tasks(self, nodes: Sequence[Node]) -> Sequence[Node]:
        """Return these nodes in the order of the allocation, in which Slurm numbers its tasks."""
        if self._settings.rank_per_task or self._held is None:
            return nodes
        order = {host.name: at for at, host in enumerate(self._held.hosts)}
        return sorted(nodes, key=lambda node: order[self._names([node.host.name])[0]])

    def start(self, nodes: Sequence[Node], loop: Loop, emit: Emit, dial: base.Dial | None) -> None:
        """Run srun; tell why it may wait, for srun itself does not."""
        if not self._shares():
            emit(EngineOutput(WAITS))
        super().start(nodes, loop, emit, dial)

    def fault_tolerance(self) -> list[engine.Argument]:
        """Return what makes the step continue without a task, or a node (srun(1))."""
        return [("--kill-on-bad-exit=0",), ("--no-kill",), ("--wait=0",)]

    def environ(self) -> dict[str, str]:
        """Return srun's environment, without the variables that are meant for workers."""
        return {
            name: value
            for name, value in os.environ.items()
            if self._settings.rank_per_task or name not in OF_TASKS
        }

    def _a_node(self, hosts: Sequence[str]) -> list[engine.Argument]:
        """Return the arguments for one node launcher per node, which is not an MPI process."""
        plain = [("--ntasks-per-node=1",), ("--mpi=none",)]
        if len(hosts) != self._size():
            return [*plain, (f"--nodelist={','.join(hosts)}",)]
        gpus = _gpus_of_tasks()
        return [*plain, *([(f"--gpus={gpus}",)] if gpus else [])]

    def _shares(self) -> bool:
        """Return whether its step shares the nodes with all other steps of the job.

        Otherwise it waits for their end. The shell of `srun --pty` would wait for itself.
        """
        in_total = any(map(os.environ.get, IN_TOTAL))
        return not in_total or _in_a_step() or bool(self._runs)

    def _unbinds(self) -> bool:
        """Return whether to turn off Slurm's binding: if dsrun binds, or the user chose none."""
        chosen = "SLURM_CPU_BIND" in os.environ or self._settings.rank_per_task
        return self._settings.bind or not chosen

    def _names(self, names: Sequence[str]) -> list[str]:
        """Return Slurm's own names of those of these hosts that are in the allocation."""
        held = [host.name for host in self._held.hosts] if self._held else []
        exact = set(held)
        return [
            own
            for name in names
            for own in ([name] if name in exact else [h for h in held if same_host(h, name)])
        ]

    def _size(self) -> int:
        return len(self._held.hosts) if self._held else 0


def _a_rank(hosts: Sequence[str], places: Sequence[engine.Placement]) -> list[engine.Argument]:
    """Return the arguments for one task per rank, in the order of the hosts (srun(1))."""
    each = [host for host, place in zip(hosts, places, strict=True) for _ in range(place.tasks)]
    return [("--distribution=arbitrary",), (f"--nodelist={','.join(each)}",)]


def _gpus_of_tasks() -> int:
    """Return the number of GPUs of the whole job if they were requested per task, else 0.

    Without this number, a step of one task per node gets the GPUs of one task on each node.
    """
    each = os.environ.get("SLURM_GPUS_PER_TASK", "").rpartition(":")[2]
    tasks = os.environ.get("SLURM_NTASKS", "")
    return int(each) * int(tasks) if each.isdigit() and tasks.isdigit() else 0


def _in_a_step() -> bool:
    """Return whether this runs in a step of the job, as a shell of `srun --pty` does."""
    from ...resources.slurm import FIRST_SPECIAL_STEP

    step = os.environ.get("SLURM_STEP_ID", "")
    return step.isdigit() and int(step) < FIRST_SPECIAL_STEP
