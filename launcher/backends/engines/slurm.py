"""Slurm: one `srun` inside an allocation; no ssh, no hostfile."""

from __future__ import annotations

import os
from functools import partial

from ...common.errors import LOST, reason
from ...common.in_thread import in_thread
from ...resources import allocation
from ...resources.slurm import gpus_of_tasks, stale_requests
from ...resources.slurm_job import verified
from .. import base, causes
from ..events import BackendWarning, EngineEnded, EngineOutput
from . import base as engine

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...common.loop import Loop
    from ...specs.backend import BackendSettings
    from ...specs.container import ContainerSpec, Mount
    from ...specs.plan import Node
    from ..events import Emit

OF_TASKS = (
    *("SLURM_CPUS_PER_TASK", "SRUN_CPUS_PER_TASK", "SLURM_GPUS_PER_TASK", "SLURM_TRES_PER_TASK"),
    *("SLURM_NTASKS_PER_GPU", "SLURM_NTASKS_PER_CORE", "SLURM_NTASKS_PER_SOCKET"),
    *("SLURM_GPU_BIND", "SLURM_TRES_BIND", "SLURM_DISTRIBUTION", "SLURM_HINT"),
    "SLURM_THREADS_PER_CORE",
)
"""Variables that srun applies to each task (srun(1)), as set by sbatch.

The values are for workers. A node launcher, one task per node, would get one worker's part of the
node: one GPU of eight, or the cores of one rank.
"""

OF_THE_JOB = (
    *("SLURM_CPU_BIND", "SLURM_CPU_FREQ_REQ", "SLURM_CPUS_PER_GPU", "SLURM_DIST_PLANESIZE"),
    *("SLURM_EXPORT_ENV", "SLURM_GPUS", "SLURM_GPUS_PER_NODE", "SLURM_GPUS_PER_SOCKET"),
    *("SLURM_GPU_FREQ", "SLURM_MEM_BIND", "SLURM_MEM_PER_CPU", "SLURM_MEM_PER_GPU"),
    *("SLURM_MEM_PER_NODE", "SLURM_NETWORK", "SLURM_NTASKS_PER_NODE", "SLURM_NTASKS_PER_TRES"),
    *("SLURM_OOM_KILL_STEP", "SLURM_OVERCOMMIT", "SLURM_PROFILE", "SLURM_TRES_PER_NODE"),
    *("SLURM_UMASK", "SLURM_CONTAINER", "SLURM_ARBITRARY_NODELIST", "SRUN_DEBUG"),
)
"""Other variables that sbatch, salloc and srun set, and that srun takes for options (srun(1)).

They may belong to another job, or to the step that this shell is in. A step without these options
gets all that its job has.
"""

OPTIONS = (
    *("ACCOUNT", "ACCTG_FREQ", "BCAST", "BCAST_EXCLUDE", "BURST_BUFFER", "CLUSTERS"),
    *("CLUSTER_CONSTRAINT", "COMPRESS", "CONSOLIDATE_SEGMENTS", "CONSTRAINT", "CORE_SPEC", "DEBUG"),
    *("DEBUG_FLAGS", "DELAY_BOOT", "DEPENDENCY", "DISABLE_STATUS", "EPILOG", "EXACT", "EXCLUSIVE"),
    *("EXIT_ERROR", "EXIT_IMMEDIATE", "GRES", "GRES_FLAGS", "HOSTFILE", "IMMEDIATE"),
    *("KILL_BAD_EXIT", "LABELIO", "NCORES_PER_SOCKET", "NO_KILL", "NSOCKETS_PER_NODE"),
    *("OPEN_MODE", "OVERLAP", "PARTITION", "POWER", "PROLOG", "QOS", "REMOTE_CWD", "REQ_SWITCH"),
    *("RESERVATION", "RESV_PORTS", "SEGMENT_SIZE", "SEND_LIBS", "SIGNAL", "SPREAD_JOB"),
    *("SPREAD_SEGMENTS", "SRUN_MULTI", "SRUN_REDUCE_TASK_EXIT_MSG", "STDERRMODE", "STDINMODE"),
    *("STDOUTMODE", "STEPMGR", "STEP_GRES", "STEP_KILLED_MSG_NODE_ID", "TASK_EPILOG"),
    *("TASK_PROLOG", "TEST_EXEC", "THREADS", "THREAD_SPEC", "TIMELIMIT", "TREE_WIDTH"),
    *("UNBUFFEREDIO", "USE_MIN_NODES", "WAIT", "WAIT4SWITCH", "WAIT_FOR_CHILDREN", "WCKEY"),
    "WORKING_DIR",
)
"""The rest of the input variables in srun(1) of Slurm 22.05 to 25.05, without SLURM_."""

SRUNS = (
    *("SRUN_CONTAINER", "SRUN_CONTAINER_ID", "SRUN_ERROR", "SRUN_EXPORT_ENV"),
    *("SRUN_INPUT", "SRUN_OUTPUT", "SLURMD_DEBUG"),
)

TYPED = frozenset((*(f"SLURM_{name}" for name in OPTIONS), *SRUNS))
"""Variables that users set to give srun options, for an unknown job.

Other variables identify the job, or an argument overrides them: SLURM_CONF, SLURM_JOB_ID,
SLURM_JOB_NAME (srun ignores it in a job), SLURM_JOB_NUM_NODES, SLURM_NNODES, SLURM_NTASKS,
SLURM_NPROCS, SLURM_MPI_TYPE; PMI_* and SLURM_PMI_* tune MPI alone.
"""

KEPT_INSIDE = ("HOME", "LOGNAME", "PATH", "TERM", "USER")
"""Variables of this machine that a container of pyxis gets; enroot and its login need them."""

KEPT_BEGINNINGS = ("ENROOT_", "I_MPI_", "MELLANOX_", "NVIDIA_", "OMPI_", "PMI", "PRTE_")
"""Prefixes of further such variables: options of enroot, of its hooks and of MPI."""

SHOWN = 6
"""Names of variables that a line shows."""

WAITS = (
    "srun waits: other steps of this job hold its GPUs, which were requested as a total (--gpus"
    " or --gpus-per-task); squeue --steps lists the steps"
)


class Slurm(engine.Engine):
    """Runs `srun`, with one part for every component of a heterogeneous job."""

    tools = ("srun",)
    label = r"([0-9]{1,9}):(?: |$)"
    # Said to any --cpu-bind, even `none`, without a task plugin that binds (task/none).
    queues = True
    harmless = r"^srun: .*lacks support for (?:cpu|memory) binding$"
    aliases = (
        *(("N", "nodes"), ("n", "ntasks"), ("w", "nodelist"), ("D", "chdir")),
        *(("i", "input"), ("l", "label"), ("K", "kill-on-bad-exit"), ("m", "distribution")),
        ("exclusive", "overlap"),
    )

    def __init__(self, settings: BackendSettings) -> None:
        super().__init__(settings)
        self._held = allocation.find(os.environ)
        self._stale = stale_requests(os.environ)
        self._own: dict[str, str] = {}
        self._closed = False

    def problem(self, nodes: Sequence[Node]) -> str:
        """Return why it cannot start these nodes, or "".

        Raises:
            UsageError: the job has ended.
        """
        held = self._held
        if held is None or held.scheduler != "slurm":
            return _outside()
        verified(held, os.environ)
        hosts = list(dict.fromkeys(node.host.name for node in nodes))
        own = self._names(hosts)
        if len(own) < len(hosts):
            strange = next(host for host in hosts if not self._own[host])
            names = ",".join(host.name for host in held.hosts)
            return f"--launcher slurm: {held.words} has no host {strange}; it has {names[:200]}"
        return super().problem(nodes)

    def refusal(self, hosts: Sequence[str]) -> str:
        """Return "": srun gets Slurm's own names, whatever the hosts are called."""
        return ""

    def argv(self, nodes: Sequence[Node], dial: base.DialBack | None) -> list[str]:
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
            *([("--overlap",)] if self.shares() else []),
            *((word,) for word in _pyxis(settings.container)),
        ]

    def tasks(self, nodes: Sequence[Node]) -> Sequence[Node]:
        """Return these nodes in the order of the allocation, in which Slurm numbers its tasks."""
        if self._settings.rank_per_task or self._held is None:
            return nodes
        order = {host.name: at for at, host in enumerate(self._held.hosts)}
        return sorted(nodes, key=lambda node: order[self._names([node.host.name])[0]])

    def start(
        self, nodes: Sequence[Node], loop: Loop, emit: Emit, dial: base.DialBack | None
    ) -> None:
        """Run srun; report the variables that it does not get, and why it may wait silently."""
        typed = sorted(TYPED & {name for name, value in os.environ.items() if value})
        untold = [name for name in typed if name not in self._stale]
        if untold and not self._runs:
            emit(
                BackendWarning(f"srun takes options only from --launcher_args, not {_few(untold)}")
            )
        if not self.shares():
            emit(EngineOutput(WAITS))
        begin = partial(super().start, nodes, loop, emit, dial)
        folders = _folders_to_make(self._settings.container)
        if not folders:
            begin()
            return
        emit(EngineOutput(f"making {', '.join(folders)} for the containers"))
        problems: list[str] = []

        def make() -> None:
            try:
                for folder in folders:
                    os.makedirs(folder, exist_ok=True)
            except OSError as error:
                problems.append(f"{error.filename}: {reason(error)}")

        def made() -> None:
            if problems:
                emit(EngineEnded(problems[0], LOST, False))
            elif not self._closed:
                begin()

        in_thread(loop, [make], made)  # a file system may not answer

    def close(self) -> None:
        """Start nothing more; wait for srun to end on its own, then stop it."""
        self._closed = True
        super().close()

    def start_failure(self, lines: Sequence[str]) -> str:
        """Return why pyxis has not started the container, if srun's lines say so."""
        container = self._settings.container
        if container is None or not container.by_engine:
            return ""
        return causes.explain_pyxis(container.shown, lines)

    def fault_tolerance(self) -> list[engine.Argument]:
        """Return options that make the step continue without a task, or a node (srun(1))."""
        return [("--kill-on-bad-exit=0",), ("--no-kill",), ("--wait=0",)]

    def environ(self) -> dict[str, str]:
        """Return srun's environment, without variables that srun would take for options.

        With one task per rank, variables about tasks are about ranks. In a job without components,
        variables about components are left over from another job.
        """
        tasks = () if self._settings.rank_per_task else OF_TASKS
        gone = TYPED.union(OF_THE_JOB, tasks)
        own = {name: value for name, value in super().environ().items() if name not in gone}
        if self._held is not None and len(self._held.groups) > 1:
            return own
        return {name: value for name, value in own.items() if "_HET_" not in name}

    def _a_node(self, hosts: Sequence[str]) -> list[engine.Argument]:
        """Return the arguments for one node launcher per node, which is not an MPI process."""
        plain = [("--ntasks-per-node=1",), ("--mpi=none",)]
        if len(hosts) != self._size():
            return [*plain, (f"--nodelist={','.join(hosts)}",)]
        # Without this number, a step of one task per node gets the GPUs of one task on each node.
        gpus = 0 if self._stale else gpus_of_tasks(os.environ)
        return [*plain, *([(f"--gpus={gpus}",)] if gpus else [])]

    def _unbinds(self) -> bool:
        """Return whether to turn off Slurm's binding: if dsrun binds, or if tasks are not ranks."""
        return self._settings.bind or not self._settings.rank_per_task

    def _names(self, names: Sequence[str]) -> list[str]:
        """Return Slurm's own names of the hosts that are in the allocation."""
        new = [name for name in names if name not in self._own]
        if new and self._held:
            from ...resources.aliases import meant

            found = meant(new, [host.name for host in self._held.hosts])
            self._own |= {name: found.get(name, "") for name in new}
        return [self._own[name] for name in names if self._own.get(name)]

    def _size(self) -> int:
        return len(self._held.hosts) if self._held else 0


def _a_rank(hosts: Sequence[str], places: Sequence[engine.Placement]) -> list[engine.Argument]:
    """Return the arguments for one task per rank, in the order of the hosts (srun(1))."""
    each = [host for host, place in zip(hosts, places, strict=True) for _ in range(place.tasks)]
    return [("--distribution=arbitrary",), (f"--nodelist={','.join(each)}",)]


def _pyxis(container: ContainerSpec | None) -> list[str]:
    """Return srun's options for a container of pyxis (github.com/NVIDIA/pyxis, README).

    srun passes on the last value of an option alone, and pyxis refuses a second one.
    """
    if container is None or not container.by_engine:
        return []
    mounts = [_as_pyxis_has_it(mount) for mount in container.mounts]
    words = list[str]()
    given = iter(container.args)
    for word in given:
        name, _, value = word.partition("=")
        if name == "--container-mounts":
            mounts.append(value or next(given, ""))
        else:
            words.append(word)
    workdir = any(word.partition("=")[0] == "--container-workdir" for word in words)
    also = [name for name in sorted(os.environ) if name.startswith(KEPT_BEGINNINGS)]
    return [
        # Otherwise everything that the image does not set would be this machine's.
        f"--export={','.join([*KEPT_INSIDE, *also])}",
        f"--container-image={container.image}",
        *([f"--container-mounts={','.join(mounts)}"] if mounts else []),
        *([] if workdir else ["--container-workdir=/"]),
        *words,
    ]


def _as_pyxis_has_it(mount: Mount) -> str:
    """Return a mount with its flags; unless the user has named it, a node may lack it."""
    needed = mount.given or mount.made
    flags = [*(["ro"] if mount.read_only else []), *([] if needed else ["nofail"])]
    return ":".join([mount.source, mount.target, *(["+".join(flags)] if flags else [])])


def _folders_to_make(container: ContainerSpec | None) -> list[str]:
    """Return the folders that have to exist before a node can mount them."""
    if container is None or not container.by_engine:
        return []
    return [mount.source for mount in container.mounts if mount.made]


def _outside() -> str:
    """Return the problem outside of a Slurm job, in words."""
    job = os.environ.get("SLURM_JOB_ID")
    if job:
        return (
            f"--launcher slurm: SLURM_JOB_ID is {job}, but SLURM_JOB_NODELIST is not set, as it"
            " would be in a job; if it is left over in this shell, `unset SLURM_JOB_ID`, and"
            " dsrun will ask salloc for an allocation"
        )
    return (
        "--launcher slurm: this is not inside a Slurm job (no SLURM_JOB_NODELIST); start dsrun from"
        " a script for sbatch, or after salloc"
    )


def _few(names: Sequence[str]) -> str:
    """Return the first names and the number of the others, to keep to one line."""
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return f"{', '.join(names[:SHOWN])}{more}"
