"""The JSON types of `--dry_run --json`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, TypedDict

from ..backends.base import StartCommand
from ..common.json_types import Natural
from ..specs.backend import BackendSettings, DialIn
from ..specs.batch_plan import BatchPlan
from ..specs.host_updates import HostUpdates
from ..specs.plan import Origin
from ..specs.policies import (
    BindingPolicy,
    CheckPolicy,
    DebugPolicy,
    ElasticPolicy,
    HookPolicy,
    OutputPolicy,
    SupervisionPolicy,
    WatchPolicy,
    WorkerPolicy,
)
from ..specs.rendezvous import Rendezvous
from ..specs.sync import SyncSpec


class NodeJson(TypedDict):
    """A node of the job. Its workers have the local ranks 0, 1, ... and ranks from `first_rank` on.

    Attributes:
        node_rank: rank of the node, from 0.
        host: name of the host, as listed.
        first_rank: rank in the job of the worker with local rank 0; None while the slots of an
            earlier node are unknown.
        devices: the device of each worker, in the order of local ranks: its index on the node, or
            its id; None while its slots are unknown.
        python: the workers' Python: a path, or a name that is searched on PATH there; None if only
            the node knows it (--venv_script), or the workers run on none (--no_python).
    """

    node_rank: Natural
    host: str
    first_rank: Natural | None
    devices: Sequence[int | str] | None
    python: str | None


class _EveryPlan(TypedDict):
    """The fields of every plan.

    Attributes:
        launcher: name of the launcher (backend), such as ssh.
        master_addr: MASTER_ADDR; None if it is chosen among node 0's addresses at the start.
        master_port: MASTER_PORT; None if a free port is chosen on node 0.
        world_size: number of workers; None while the slots of a node are unknown, or with torch's
            rendezvous of several nodes.
        nodes: the nodes in the order of their ranks.
        program: command of the worker with local rank 0.
        environment: names of the variables that are sent to the nodes.
        withheld: names of variables that are not sent because they look like secrets.
        world_info: hosts and slots for `launch --world_info`: urlsafe base64 of JSON, compressed
            first if it begins with `z.`; None while the slots of a node are unknown.
        commands: the commands that start the node launchers.
        workdir: the folder that the workers run in.
        workers: the start of workers.
        backend: the settings for starting node launchers.
        binding: the binding of a node's workers.
        supervision: the supervision and the stop of the job.
        output: the destinations of the output, and its printed form.
        checks: the checks before the workers start.
        watch: the watches on the running job.
        hooks: the reports on the job to other programs.
        debug: the workers that start under a debugger; None if none does.
        elastic: limits of an elastic job in dsrun's own rounds; None otherwise.
        sync: the folder that is copied to the nodes; None without --sync.
        updates: the list in which an elastic job looks for added and removed hosts, or None.
        batches: the elastic batch plan of --elastic_config, or None.
        dial_in: the settings for node launchers that dial the runner.
        origin: the origin of the plan.
        core_lists: core lists of hosts that have their own, by host name; each such as 0-3,8.
    """

    launcher: str
    master_addr: str | None
    master_port: Annotated[int, ("minimum", 1), ("maximum", 65535)] | None
    world_size: Natural | None
    nodes: list[NodeJson]
    program: Sequence[str]
    environment: Sequence[str]
    withheld: Sequence[str]
    world_info: str | None
    commands: Sequence[StartCommand]
    workdir: str
    workers: WorkerPolicy
    backend: BackendSettings
    binding: BindingPolicy
    supervision: SupervisionPolicy
    output: OutputPolicy
    checks: CheckPolicy
    watch: WatchPolicy
    hooks: HookPolicy
    debug: DebugPolicy | None
    elastic: ElasticPolicy | None
    sync: SyncSpec | None
    updates: HostUpdates | None
    batches: BatchPlan | None
    dial_in: DialIn
    origin: Origin
    core_lists: Mapping[str, str]


class PlanJson(_EveryPlan, total=False):
    """A job with hosts, unlike one that asks for an allocation.

    Attributes:
        rendezvous: only with torch's rendezvous (--rdzv_backend). Ranks then count from 0 on this
            machine until torch has assigned them.
        notes: a copy of `origin.notes`; omitted if empty.
    """

    rendezvous: Rendezvous
    notes: Sequence[str]


class AllocationJson(TypedDict):
    """A job whose hosts are not known before its allocation (--launcher slurm outside a Slurm job).

    Attributes:
        launcher: name of the launcher: slurm.
        nodes: always None: the nodes are not known yet.
        commands: the command that requests the allocation, and runs dsrun in it.
    """

    launcher: str
    nodes: None
    commands: Annotated[list[StartCommand], ("minItems", 1), ("maxItems", 1)]
