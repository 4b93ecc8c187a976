"""The complete request for one job: planning makes it from a command line, the rest acts on it.

A Python program may make one without a command line; `head.job.start.launch` runs it.
"""

from __future__ import annotations

import os
import time

from ..common.records import NamedTuple
from .backend import BackendSettings, DialIn
from .environment import ForwardedEnv
from .plan import Origin
from .policies import (
    BindingPolicy,
    CheckPolicy,
    DebugPolicy,
    HookPolicy,
    OutputPolicy,
    SupervisionPolicy,
    WatchPolicy,
    WorkerPolicy,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .batch_plan import BatchPlan
    from .host_updates import HostUpdates
    from .plan import Plan
    from .policies import ElasticPolicy
    from .program import Program
    from .sync import SyncSpec


class JobSpec(NamedTuple):
    """One job.

    Attributes:
        job_id: the unique id of the job.
        plan: nodes in rank order, program, launcher, master and rendezvous.
        workdir: the workers' folder, as an absolute path.
        travel: the variables that go to the nodes.
        workers: the start of workers.
        backend: the start of node launchers; `settings` adds values that follow from other
            policies.
        binding: the binding of workers to cores.
        core_lists: (host, cpus) of hosts that have their own core list.
        supervision: the supervision and the stop of the job.
        output: the destinations of the output.
        checks: the checks before the workers start.
        watch: the watches on the running job.
        hooks: the reports on the job to other programs.
        debug: the workers that start under a debugger; None if none does.
        elastic: the limits for shrinking, growing and failing; None for a static job.
        sync: the folder that is synced to the nodes, or None.
        updates: the list in which the job looks for added and removed hosts, or None.
        batches: the elastic batch plan that the number of workers must fit, or None.
        dial_in: the settings for node launchers that dial the runner.
        origin: the origin of the plan, as text for the user.
        only: the rank of the only node that this process starts; None for all.
        held: whether the job runs on nodes that are kept for other jobs.
        environ: the environment of the command, if another process received it; the base of the
            workers' environment on this machine.
        payload: a function that the workers call instead of running a program, pickled, as base64;
            "" for none. Only the workers unpickle it.
        role: the role, in a job of several roles; "" in other jobs.
        ports: names of the ports that are reserved on each node for the workers of a role.
        former_ports: (host, ports in their order) of an earlier start, to be used again.
    """

    job_id: str
    plan: Plan
    workdir: str
    travel: ForwardedEnv = ForwardedEnv({})
    workers: WorkerPolicy = WorkerPolicy()
    backend: BackendSettings = BackendSettings()
    binding: BindingPolicy = BindingPolicy()
    core_lists: tuple[tuple[str, str], ...] = ()
    supervision: SupervisionPolicy = SupervisionPolicy()
    output: OutputPolicy = OutputPolicy()
    checks: CheckPolicy = CheckPolicy()
    watch: WatchPolicy = WatchPolicy()
    hooks: HookPolicy = HookPolicy()
    debug: DebugPolicy | None = None
    elastic: ElasticPolicy | None = None
    sync: SyncSpec | None = None
    updates: HostUpdates | None = None
    batches: BatchPlan | None = None
    dial_in: DialIn = DialIn()
    origin: Origin = Origin()
    only: int | None = None
    held: bool = False
    payload: str = ""
    environ: dict[str, str] | None = None
    role: str = ""
    ports: tuple[str, ...] = ()
    former_ports: tuple[tuple[str, tuple[int, ...]], ...] = ()

    @property
    def programs(self) -> dict[str, Program]:
        """The only program, under "": it has no role."""
        return {"": self.plan.program}

    @property
    def settings(self) -> BackendSettings:
        """The backend's settings, with those that follow from other policies."""
        return self.backend._replace(
            connect_timeout=self.supervision.connect_timeout,
            keepalive=self.supervision.heartbeat_timeout / 3,
            bind=self.binding.bind_to != "none" or self.held,
            elastic=self.elastic is not None or self.held,
        )

    def misfit(self, plan: Plan, *, bare: bool) -> str:
        """Return which requested devices or ranks a plan does not have, "" if it has them all.

        Ranks are not checked for an elastic job, which may grow.

        Args:
            plan: this job's plan, with the slots as far as counted.
            bare: whether the hosts certainly have no accelerators.
        """
        if bare and self.workers.needs_devices:
            needs = self.workers.needs_devices
            return f"{needs}: the hosts have no accelerator; give a number of workers"
        debugged = self.debug.ranks if self.debug else frozenset[int]()
        named = self.output.console_ranks | self.output.local_ranks | debugged
        if self.elastic or plan.rendezvous or plan.world_size is None or not named:
            return ""
        workers = [one for node in plan.nodes for one in node.workers()]
        output, ranks = self.output, {one.rank for one in workers}
        local_ranks = {one.local_rank for one in workers}
        return (
            _lacking("--console_ranks", "rank", output.console_ranks, ranks)
            or _lacking("--local_ranks_filter", "local rank", output.local_ranks, local_ranks)
            or _lacking("--debug", "rank", debugged, ranks)
        )


def _lacking(where: str, what: str, named: frozenset[int], existing: set[int]) -> str:
    lacking = named - existing
    if not lacking:
        return ""
    last = max(existing)
    valid = f"the {what}s of this job are 0 to {last}" if last else f"this job has only {what} 0"
    return f"{where} {min(lacking)}: {valid}"


def new_job_id() -> str:
    """Return a unique id for a job."""
    return time.strftime("%Y%m%d-%H%M%S-") + os.urandom(3).hex()
