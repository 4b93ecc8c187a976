"""What is watched of the workers: causes of ends, their ports, cores, and what they do."""

from __future__ import annotations

from functools import partial

from ...control import frames, messages

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ...common.loop import Loop, Timer
    from ...control.messages import NodeBindings, NodeJob
    from ..services.activity import Sampler
    from ..services.death_watch import DeathWatch
    from ..services.port_watch import PortWatch
    from ..services.role_ports import RolePorts
    from ..workers.group import WorkerGroup
    from ..workers.observed_affinity import AffinityWatch
    from ..workers.prepare import NodeSetup
    from ..workers.spawn import Process


class Watches:
    """The watches of one run. Their modules are imported only if they are used."""

    def __init__(
        self, loop: Loop, send: Callable[[bytes], None], taken: Callable[[str], None]
    ) -> None:
        """Watch nothing yet; `taken` is called if another user's program listens on a port."""
        self._loop = loop
        self._send = send
        self._taken = taken
        self._port: PortWatch | None = None
        self._role_ports: RolePorts | None = None
        self._affinity: AffinityWatch | None = None
        self._sampling: Timer | Sampler | None = None
        self._deaths: DeathWatch | None = None

    def begin(self) -> None:
        """Note what has been until now, to see the causes of ends that follow."""
        from ..services.death_watch import DeathWatch

        if self._deaths is not None:
            self._deaths.close()
        self._deaths = DeathWatch()

    def started(self, setup: NodeSetup, port: int, group: WorkerGroup) -> None:
        """Watch workers that have just been started, given MASTER_PORT."""
        self.begin()
        if setup.task.rendezvous is None:  # else rank 0 does not have the store
            self.watch_port(port, group.processes)
        self._stop_sampling()
        if setup.task.sample:
            begin = partial(self._begin_sampling, setup.task, group)
            self._sampling = self._loop.call_later(setup.task.sample, begin)

    def watch_port(self, port: int, workers: Sequence[Process]) -> None:
        """Watch which program listens on the port, if rank 0 is among these workers."""
        rank0 = next((one for one in workers if one.spec.rank == 0), None)
        if rank0 is not None:
            from ..services.port_watch import PortWatch

            self._port = PortWatch(self._loop, port, rank0, self._taken)

    def watch_role_ports(self, setup: NodeSetup, group: WorkerGroup) -> None:
        """Watch which programs listen on the ports of a role, whose workers have been started."""
        self._ports_of(setup).begin(group.running)

    def _ports_of(self, setup: NodeSetup) -> RolePorts:
        if self._role_ports is None:
            from ..services.role_ports import RolePorts

            place = setup.task.part, setup.task.host
            self._role_ports = RolePorts(self._loop, place, setup.role_ports, self._taken)
        return self._role_ports

    def ask_ports(self, setup: NodeSetup, body: bytes) -> None:
        """Answer PORTS_ASK once only the workers of the role listen on its ports.

        Raises:
            BadFrame: the question is not valid.
        """
        from ...control.role_messages import Ports, PortsAsk

        ask = messages.unpack(PortsAsk, body)
        if not {*ask.wanted} <= {*setup.task.ports}:
            raise frames.BadFrame("PORTS_ASK for a port that the role does not have")
        answer = messages.pack(frames.PORTS, Ports(ask.id))
        self._ports_of(setup).ask(ask.wanted, lambda: self._send(answer))

    def _begin_sampling(self, task: NodeJob, group: WorkerGroup) -> None:
        from ..services.activity import Sampler
        from ..services.links import links

        given = group.running, group.printed, self._send
        self._sampling = Sampler(
            self._loop, task.sample, *given, links if task.watch.slow else tuple
        )

    def _stop_sampling(self) -> None:
        if self._sampling is not None:
            self._sampling.cancel()

    def causes(self, ended: Process, code: int) -> tuple[str, str]:
        """Return what this node knows about the cause of a worker's end: in short, and in lines."""
        known = self._deaths.hint_and_evidence(ended, code) if self._deaths else ("", "")
        return known[0] or self._port_problem(ended), known[1]

    def _port_problem(self, ended: Process) -> str:
        watch = self._port
        return watch.problem() if watch and ended.spec.rank == 0 and ended.status else ""

    def watch_affinity(self, bound: NodeBindings, workers: Sequence[Process]) -> None:
        """Report what the workers are bound to, as the kernel has it."""
        from ..workers.observed_affinity import AffinityWatch, placed

        def report(values: Sequence[tuple[str, str]]) -> None:
            found = bound._replace(workers=placed(bound.workers, values))
            self._send(messages.pack(frames.BINDINGS, found))

        self._affinity = AffinityWatch(self._loop, workers, report)

    def close(self) -> None:
        """Watch nothing any more; report what has been seen of the workers' cores."""
        self._stop_sampling()
        if self._deaths is not None:
            self._deaths.close()
        for one in (self._port, self._role_ports):
            if one is not None:
                one.close()
        if self._affinity is not None:
            self._affinity.finish()
