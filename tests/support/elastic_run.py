"""An elastic run on a fleet that a test plays, and its rounds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dsrun.launcher.common.errors import SWEPT
from dsrun.launcher.control import frames, messages, round_messages
from dsrun.launcher.features.elastic import runner_policy as runner_rounds
from dsrun.launcher.features.elastic.runner_admission import PAUSES
from dsrun.launcher.features.elastic.runner_host_watch import list_hosts
from dsrun.launcher.features.elastic.runner_policy import RunnerRounds
from dsrun.launcher.features.jobs.runner_requests import check_size
from dsrun.launcher.head.doors import observe
from dsrun.launcher.specs.policies import CheckPolicy, ElasticPolicy, WatchPolicy

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dsrun.launcher.head.run.run_state import RunState
    from dsrun.launcher.specs.host import Host

    from .fake_fleet import FakeFleet

    FleetOf = Callable[..., FakeFleet]

NO_COMMAND = CheckPolicy()

UNWATCHED = WatchPolicy(hang_timeout=0.0)

LINE = "the connection to its node launcher ended (closed by the other end)"


class Job:
    """An elastic run on a fleet, and its rounds."""

    def __init__(
        self,
        fleet: FakeFleet,
        least: int = 1,
        most: int = 9,
        checks: CheckPolicy = NO_COMMAND,
        watch: WatchPolicy = UNWATCHED,
        **limits: Any,
    ) -> None:
        self.fleet = fleet
        restarts = limits.pop("restarts", 3)
        policy = ElasticPolicy(least, most, restarts, **limits)
        self.made: list[RunnerRounds] = []

        def make(run: RunState) -> RunnerRounds:
            self.made.append(RunnerRounds(run, policy))
            return self.made[0]

        self.run = fleet.prepare(restarts=make, elastic=policy, checks=checks, watch=watch)
        observe(self.run)
        self.run.start()
        fleet.step()

    @property
    def rounds(self) -> RunnerRounds:
        return self.made[0]

    def list_hosts(self, hosts: Sequence[Host]) -> bool:
        return list_hosts(self.run.view, self.run.handle, hosts)

    def resize(self, nodes: int) -> str:
        words = check_size(self.run.view(), nodes)
        self.run.handle(runner_rounds.resize, nodes)
        return words

    def ready(self) -> None:
        """Have all nodes get START; what they were sent and what was said is forgotten."""
        self.fleet.ready(self.run)
        for name in self.fleet.hosts:
            self.fleet.node(name).beats()
            self.fleet.step()
        for name in self.fleet.hosts:
            self.fleet.news(name)
        self.fleet.said()

    def join(self, *names: str, port: int = 4000) -> None:
        """Have nodes ready for a round, a port each; whoever is probed answers well.

        The workers that still run there have been told to end.
        """
        for name in names:
            self.stop_workers(name)
            self.fleet.node(name).joins(port + int(name[1:]))
        self.fleet.step()
        for node in self.fleet.backend.made:
            if node.open and node.got(frames.PROBE)():
                node.reaches()
                node.received[:] = [one for one in node.received if one[0] != frames.PROBE]
        self.fleet.step()

    def stop_workers(self, name: str) -> None:
        """Have the workers that run on a node end as they were told."""
        (node,) = [one for one in self.run.state.nodes if one.name == name]
        for worker in node.node.workers():
            if self.run.state.workers.runs(node, worker.rank):
                self.fleet.node(name).exits(worker.rank, -15, told=True)

    def round(self, name: str) -> dict[str, Any]:
        """The round that a node was told of, and nothing else."""
        ((kind, start),) = self.fleet.news(name)
        assert kind == "ROUND"
        found: dict[str, Any] = start
        return found

    def finish(self, *names: str, generation: int) -> None:
        """Have the workers of nodes exit with 0 in a round, which their node launchers report."""
        for name in names:
            (node,) = [one for one in self.run.state.nodes if one.name == name]
            for worker in node.node.workers():
                self.fleet.node(name).exits(worker.rank, 0)
            finished = round_messages.Finished(generation)
            self.fleet.node(name).says(messages.pack(frames.FINISHED, finished))
        self.fleet.step()

    def lose(self, name: str) -> None:
        """Have a node launcher die, whose guard says that its workers were stopped."""
        node = self.fleet.node(name)
        node.leaves()
        node.ends(f"the node launcher was killed by SIGKILL; {SWEPT}", 0.0)
        self.fleet.step()

    def up(self, *names: str) -> None:
        """Have the workers of nodes run, and forget what was sent and said."""
        for name in names:
            (node,) = [one for one in self.run.state.nodes if one.name == name]
            self.fleet.up(name, *(worker.rank for worker in node.node.workers()))
            self.fleet.news(name)
        self.fleet.said()


def started(fleet: FakeFleet, **limits: Any) -> Job:
    """A job whose first round runs on all of its nodes."""
    job = Job(fleet, **limits)
    job.ready()
    job.join(*fleet.hosts)
    job.up(*fleet.hosts)
    return job


def end_well(job: Job, *names: str) -> None:
    """Have the workers of these nodes exit with 0."""
    for name in names:
        (node,) = [one for one in job.run.state.nodes if one.name == name]
        for worker in node.node.workers():
            job.fleet.node(name).exits(worker.rank, 0)
        job.fleet.node(name).done()
    job.fleet.step()


def lost(fleet_of: FleetOf, **limits: Any) -> Job:
    """A job that has lost n1, reaches it again, and runs on n0 meanwhile."""
    job = started(fleet_of("n0", "n1"), **limits)
    job.lose("n1")
    job.join("n0")
    job.up("n0")
    job.fleet.go(PAUSES.first + 0.5)
    assert job.fleet.backend.started == [[0, 1], [1]]
    assert job.fleet.kinds("n1") == ["JOB"]
    return job


def left(job: Job, name: str, why: str, *, unusable: bool = False) -> None:
    """Have a node say that torch's agent has ended."""
    said = messages.pack(frames.AGENT_FAILED, round_messages.AgentFailure(why, unusable))
    job.fleet.node(name).says(said)
    job.fleet.step()
