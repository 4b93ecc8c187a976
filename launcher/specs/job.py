"""All that is asked of one job: what planning makes of words, and all that stands behind it sees.

A program may make one as well, without a command line; `head.run.start.launch` runs it.
"""

from __future__ import annotations

import os
import time

from ..common.values import NamedTuple
from .backend import BackendSettings
from .binding_policy import BindingPolicy
from .dial_in import DialIn
from .environment import Travel
from .origin import Origin
from .output_policy import OutputPolicy
from .supervision_policy import SupervisionPolicy

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .batch_plan import BatchPlan
    from .elastic_policy import ElasticPolicy
    from .host_updates import HostUpdates
    from .plan import Plan


class WorkerPolicy(NamedTuple):
    """What the workers are given beside program, folder and variables.

    Attributes:
        venv_script: a shell file to source before them, as an absolute path; "" for none.
        role: their ROLE_NAME.
        run_id: their TORCHELASTIC_RUN_ID; "" for the job's id.
        one_device: each sees one device only, as LOCAL_RANK 0.
        shard_queue: they can take shards of data from the runner.
        warm_modules: what the next round's workers import beforehand.
        expects_devices: accelerators are expected, so that it is worth a line if there is none.
        needs_devices: the option that asks for accelerators by name; "" for none.
    """

    venv_script: str = ""
    role: str = "default"
    run_id: str = ""
    one_device: bool = False
    shard_queue: bool = False
    warm_modules: tuple[str, ...] = ()
    expects_devices: bool = False
    needs_devices: str = ""


class JobSpec(NamedTuple):
    """One job.

    Attributes:
        plan: nodes in rank order, program, launcher, master and rendezvous.
        workdir: where the workers run, as an absolute path.
        travel: the variables that go to the nodes.
        backend: how node launchers are started; what policies say of it, too, counts (`settings`).
        binding: how workers are bound to cores.
        core_lists: (host, cpus) of hosts that have lists of their own.
        elastic: how far the job may shrink, grow and fail; None where it may not.
        updates: where it learns of hosts that come and go; None for nowhere.
        batches: the elastic plan that the number of workers has to fit; None for none.
        dial_in: how node launchers reach the runner, where they dial it.
        only: the one node rank that this process sees to; None for all.
    """

    job_id: str
    plan: Plan
    workdir: str
    travel: Travel = Travel({})
    workers: WorkerPolicy = WorkerPolicy()
    backend: BackendSettings = BackendSettings()
    binding: BindingPolicy = BindingPolicy()
    core_lists: tuple[tuple[str, str], ...] = ()
    supervision: SupervisionPolicy = SupervisionPolicy()
    output: OutputPolicy = OutputPolicy()
    elastic: ElasticPolicy | None = None
    updates: HostUpdates | None = None
    batches: BatchPlan | None = None
    dial_in: DialIn = DialIn()
    origin: Origin = Origin()
    only: int | None = None

    @property
    def settings(self) -> BackendSettings:
        """How node launchers are started, as the policies have it."""
        return self.backend._replace(
            connect_timeout=self.supervision.connect_timeout,
            keepalive=self.supervision.heartbeat_timeout / 3,
            bind=self.binding.bind_to != "none",
            elastic=self.elastic is not None,
        )

    def misfit(self, plan: Plan, *, bare: bool) -> str:
        """Return what is asked for that a plan does not have, "" for nothing.

        Ranks of elastic jobs may yet come.

        Args:
            plan: this job's, as far as its slots are known by now.
            bare: it is known that there are no accelerators.
        """
        if bare and self.workers.needs_devices:
            return f"{self.workers.needs_devices}: the hosts have no accelerator"
        shown = self.output.console_ranks | self.output.local_ranks
        if self.elastic or plan.rendezvous or plan.world_size is None or not shown:
            return ""
        workers = [one for node in plan.nodes for one in node.workers()]
        output, ranks = self.output, {one.rank for one in workers}
        local_ranks = {one.local_rank for one in workers}
        return _lacking("--console_ranks", "ranks", output.console_ranks, ranks) or _lacking(
            "--local_ranks_filter", "local ranks", output.local_ranks, local_ranks
        )


def _lacking(where: str, what: str, named: frozenset[int], there: set[int]) -> str:
    lacking = named - there
    if not lacking:
        return ""
    return f"{where} {min(lacking)}: the {what} of this job are 0 to {max(there)}"


def new_job_id() -> str:
    """Return an id that no other job has."""
    return time.strftime("%Y%m%d-%H%M%S-") + os.urandom(3).hex()
