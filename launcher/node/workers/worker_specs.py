"""Turns a START into a `WorkerSpec` for each worker here, and its log files."""

from __future__ import annotations

import os

from ...common import system
from ...specs import environment
from ...specs.environment import to_wire
from ..machine import leftovers
from ..machine.cores import WorkerCores, unbound
from .log_files import LogFiles
from .spawn import MemoryPolicy, WorkerSpec

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ...control.messages import NodeBindings, Start
    from ...specs.host import Slot
    from .devices import WorkerDevices
    from .log_writer import LogWriter
    from .prepare import NodeSetup
    from .spawn import Process


class WorkerSpecs:
    """Makes the worker specs for every round of one run.

    Attributes:
        files: the logs and error files.
    """

    def __init__(self, setup: NodeSetup, note: Callable[[str], None]) -> None:
        """Prepare for a task that passed its checks; `note` is called with messages."""
        self._setup = setup
        self._note = note
        self.files = LogFiles(setup, note)
        self._equipment: WorkerDevices
        self._owners = ",".join(map(leftovers.identity, (system.getpid(), system.getppid())))
        if text := os.environ.get(environment.NOTE):
            note(text)
        if setup.slots > setup.cpus:
            from ..machine import confinement

            # Workers do not get the variables that identify the binder of this process.
            if text := confinement.note(setup.slots, setup.cpus, os.environ, setup.task.by_engine):
                note(text)

    def make(self, start: Start) -> tuple[list[WorkerSpec], LogWriter | None]:
        """Return the worker specs of a round, and the writer of their logs (None without logs).

        Raises:
            OSError: a log file cannot be created.
            DsrunError: cores cannot be bound as requested.
        """
        self._equipment = self._setup.equip(start.slots)
        self.files.close()
        specs = [
            self._spec(start, local, cores)
            for local, cores in enumerate(self._cores())
            if start.only in {None, local}
        ]
        return specs, self.files.open([spec.rank for spec in specs], start)

    def common(self) -> dict[bytes, bytes]:
        """Return the variables that all workers here share, without those set at the start.

        PYTHONPATH lacks the workers' folder, which is added for each worker.

        Raises:
            DsrunError: cores cannot be bound as requested.
            ValueError: a slot is not one of the visible devices.
        """
        slots = self._setup.task.slots or tuple(range(self._setup.slots))
        self._equipment = self._setup.equip(slots)
        job = {"DSRUN_JOB_ID": self._setup.task.job_id}
        every = [
            self._environment({**self._place(slots, local), **job}, cores.threads, "").items()
            for local, cores in enumerate(self._cores())
        ]
        ranks = environment.RESERVED.difference(job) | environment.OF_A_SLURM_TASK
        equal = set(every[0]).intersection(*every[1:])
        return {name: value for name, value in equal if name.decode(errors="replace") not in ranks}

    def bound(self, start: Start, processes: Sequence[Process]) -> NodeBindings:
        """Return the bindings of the last workers made, without the kernel's values."""
        pids = {one.spec.rank - start.first_rank: one.pid for one in processes}
        return self._equipment.bound(pids, start.first_rank)

    def close(self) -> None:
        """Close the files of the last round."""
        self.files.close()

    def _cores(self) -> list[WorkerCores]:
        nodes, policy = self._equipment.numa_nodes, self._setup.policy
        if policy.bind_to == "none":
            return unbound(len(nodes), self._setup.cpus)
        from ...features.binding import node_apply as apply

        devices, cpus = self._equipment.devices, self._setup.cpus
        return apply.bound(policy, nodes, self._note, devices=devices, cpus=cpus)

    def _spec(self, start: Start, local: int, cores: WorkerCores) -> WorkerSpec:
        setup, rank = self._setup, start.first_rank + local
        local_rank = 0 if setup.task.workers.one_device else local
        program = setup.program
        if setup.peers is not None:
            program = program._replace(args=setup.peers.filled(program.args))
        argv = program.argv(to_wire(setup.python), local_rank)
        return WorkerSpec(
            rank=rank,
            argv=[environment.from_wire(word) for word in argv],
            env=self._environment(
                self._contract(start, local),
                cores.threads,
                setup.task.workdir if setup.program.folder_first else "",
            ),
            workdir=setup.workdir,
            cpus=cores.cpus,
            keep_stdin=setup.task.output.stdin and rank == 0,
            prefix=tuple(environment.from_wire(word) for word in cores.prefix),
            memory=MemoryPolicy(*cores.memory) if cores.memory else None,
            python=b"" if program.no_python else setup.python,
        )

    def _environment(
        self, promised: dict[str, str], threads: int, first: str
    ) -> dict[bytes, bytes]:
        setup = self._setup
        own = setup.task.env
        env = environment.worker(
            setup.base,
            own if setup.peers is None else setup.peers.filled_values(own),
            promised,
            first=first,
            python="" if setup.program.no_python else to_wire(setup.python),
            threads=threads,
        )
        env = environment.placed(env, setup.task.workdir)
        wire = environment.from_wire
        return {wire(name): wire(value) for name, value in env.items()}

    def _contract(self, start: Start, local: int) -> dict[str, str]:
        """Return the variables that every worker is guaranteed to get."""
        setup, info = self._setup, self._rank_info(start, local)
        variables = environment.rank_variables(info)
        if "SLURM_PROCID" in setup.base:
            variables |= environment.of_slurm(info, setup.base, _workers(start.world))
        if start.agent_variables:
            from ...features.elastic.node_agent_environment import variables as of_agent

            variables |= of_agent(start, local)
        if setup.peers is not None:
            variables |= setup.peers.variables()
        return variables | self._place(start.slots, local)

    def _place(self, slots: Sequence[Slot], local: int) -> dict[str, str]:
        """Return the variables that depend on a worker's place on this node."""
        setup = self._setup
        given = self._equipment.variables(local, {**setup.base, **setup.task.env})
        return {**self._mask(slots, local), **given, "DSRUN_NODE_LAUNCHER": self._owners}

    def _mask(self, slots: Sequence[Slot], local: int) -> dict[str, str]:
        """Return the variables that show a worker all devices of this node, or only its own."""
        devices = self._setup.devices
        entries = devices.entries(slots)
        # A worker with several devices, or none, cannot choose one by its local rank.
        grouped = any(len(own) != 1 for own in entries)
        alone = self._setup.task.workers.one_device or devices.alone or grouped
        seen = entries[local : local + 1] if alone else entries
        return devices.mask([entry for own in seen for entry in own])

    def _rank_info(self, start: Start, local: int) -> environment.RankInfo:
        task = self._setup.task
        return environment.RankInfo(
            rank=start.first_rank + local,
            local_rank=0 if task.workers.one_device else local,
            local_size=len(start.slots),
            world_size=start.world_size,
            node_rank=start.node_rank,
            nodes=start.nodes,
            master_addr=start.master_addr,
            master_port=start.master_port,
            job_id=task.job_id,
            role=task.workers.role,
            restarts=start.restarts,
            max_restarts=start.max_restarts,
            agent_store=task.torch_agent,
            run_id=task.workers.run_id,
            world=start.world,
            error_file=self.files.error_file(start, local),
        )


def _workers(world: str) -> list[int]:
    """Return the number of workers on each node by DSRUN_WORLD_INFO; [] if unknown."""
    from ...common.errors import UsageError
    from ...resources import world_info

    try:
        return [len(slots) for slots in world_info.decode(world).values()] if world else []
    except UsageError:
        return []
