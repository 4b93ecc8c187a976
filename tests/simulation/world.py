"""A world: the real runner and node launchers on simulated hosts, from a scenario to a history."""

from __future__ import annotations

import gc
import json
import os
import signal
import traceback
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from dsrun.launcher.backends.base import Part
from dsrun.launcher.common import system
from dsrun.launcher.common.errors import UsageError
from dsrun.launcher.common.loop import Loop
from dsrun.launcher.features.elastic import plan as elastic_plans
from dsrun.launcher.features.elastic import runner_policy as runner_rounds
from dsrun.launcher.features.elastic.runner_host_watch import list_hosts
from dsrun.launcher.features.jobs.runner_requests import check_size
from dsrun.launcher.features.quick_check import node_interpreter as libraries
from dsrun.launcher.head.job import launch
from dsrun.launcher.head.job.one_program import OneProgram
from dsrun.launcher.head.job.start import PreparedStart
from dsrun.launcher.head.output.console import Console
from dsrun.launcher.head.run.events import Lost, RanksStarted, Round, Started
from dsrun.launcher.specs.environment import ForwardedEnv
from dsrun.launcher.specs.host import Host
from dsrun.launcher.specs.job import JobSpec
from dsrun.launcher.specs.plan import Plan, lay_out
from dsrun.launcher.specs.policies import (
    CheckPolicy,
    ElasticPolicy,
    OutputPolicy,
    SupervisionPolicy,
    WatchPolicy,
    WorkerPolicy,
)
from dsrun.launcher.specs.program import Program
from dsrun.launcher.specs.rendezvous import Rendezvous

from . import looks
from .faults import Faults
from .history import Event
from .kernel import Kernel
from .labelled import lines_of
from .meeting import LONGEST
from .programs import Worker, run_tool
from .remote import Remote
from .streams import ERRORS, FILES, OUTPUT, Streams
from .torch_agent import TorchAgent

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from dsrun.launcher.head.fleet.fleet import NodeFleet
    from dsrun.launcher.head.output.screen import Screen
    from dsrun.launcher.specs.plan import Node

    from .kernel import Process
    from .scenario import Change, ElasticSpec, HostSpec, Look, ProgramSpec, Scenario

FOLDER, SCRIPT, PYTHON, LOGS, REPORT = (
    "/work",
    "train.py",
    "/usr/bin/python",
    "/logs",
    "/work/r.json",
)

JOB = "20260101-000000-abcdef"

ENVIRON = {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"}
"""The environment of every process."""

HEALTH = "is-healthy"
"""The health command."""

HELD_UNTIL = 1.0
"""Seconds after the start of the workers until other nodes have released what they have held."""

AFTERWARDS = 1000.0
"""Seconds after the end of the runner, and after all faults have healed, until nothing of the job
may be left. A node launcher that gets no START waits for 600; one that knows of the runner only
that it is suspended, until TCP gives up."""


class Outcome(NamedTuple):
    """What has become of a world.

    Attributes:
        history: as `checker` takes it.
        crashes: exceptions of dsrun's own code, with the process.
        seconds: of virtual time.
        output: what the runner has printed, both streams.
    """

    history: list[Event]
    crashes: list[str]
    seconds: float
    output: str


def play(scenario: Scenario, trace: Callable[[Event], None] | None = None) -> Outcome:
    """Play a world to its end."""
    return played(kind_of(scenario)(scenario, trace))


def played(world: World) -> Outcome:
    """Play a world that was made to its end."""
    libraries.cache.clear()  # a process has one, and each world begins with new ones
    with simulated(world.kernel):
        return world.play()


def kind_of(scenario: Scenario) -> type[World]:
    """Return the kind of world that plays a scenario."""
    if scenario.hold is not None:
        from .hold_world import HoldWorld

        return HoldWorld
    if scenario.roles:
        from .roles_world import RolesWorld

        return RolesWorld
    return World


@contextmanager
def simulated(kernel: Kernel) -> Iterator[None]:
    """Put the kernel in place of the operating system."""
    gc.disable()  # objects of this process must not be finalized as those of a simulated one
    environ = dict(os.environ)
    os.environ.clear()  # its size decides how node launchers write to pipes
    os.environ |= ENVIRON
    before = system.use(kernel.calls())
    try:
        yield
    finally:
        kernel.close()
        system.use(before)
        os.environ.clear()
        os.environ |= environ
        gc.enable()


class World:
    """One world.

    Attributes:
        kernel: of its hosts.
        history: what has happened until now.
    """

    def __init__(self, scenario: Scenario, trace: Callable[[Event], None] | None = None) -> None:
        self.scenario = scenario
        self.kernel = Kernel(scenario.seed)
        self.history: list[Event] = []
        self._trace = trace
        self._lives: dict[tuple[object, int], int] = {}
        self._rounds: dict[object, dict[tuple[bytes, ...], int]] = {}
        self._newest: dict[str, int] = {}
        self.faults = Faults(self)
        self.kernel.record = self._record
        self.kernel.roles = self._name
        self.kernel.programs = self._program
        self.login = self.kernel.host("login")
        self.login.files.folder(FOLDER)
        for spec in self.all_hosts:
            self._add_host(spec)
        self.login.has_names = bool(scenario.looks)
        self.streams = Streams(self.kernel, self.login, scenario.streams)
        self.remote = Remote(self.kernel, self.all_hosts, self.login, scenario.engine)
        self.runner: Process | None = None

    @property
    def all_hosts(self) -> tuple[HostSpec, ...]:
        """The hosts that the job may ever have."""
        return (*self.scenario.hosts, *self.scenario.spares)

    def _add_host(self, spec: HostSpec) -> None:
        host = self.kernel.host(spec.name)
        self.kernel.network.delays[spec.name] = spec.delay
        host.files.folder(FOLDER)
        host.files.put(f"{FOLDER}/{SCRIPT}", b"# other\n" if spec.code == "script" else b"")
        host.files.put(f"{FOLDER}/model.py", b"# other\n" if spec.code == "files" else b"")
        host.files.put(PYTHON, b"", mode=0o755)
        host.files.folder(LOGS, mode=0o777)
        host.files.mount(LOGS)
        for _ in range(self.scenario.crowd):
            host.add_stranger(1001, "python")

    # -- what happens ------------------------------------------------------------------------

    def record(self, host: str, kind: str, **fields: Any) -> None:
        """Add an event to the history."""
        self._record(kind, host, fields)

    def _record(self, kind: str, host: str, fields: dict[str, Any]) -> None:
        event = Event(self.kernel.now, host, kind, fields)
        self.history.append(event)
        if self._trace is not None:
            self._trace(event)
        self.faults.on_event(event)
        if kind == "ended" and self.runner is not None and host == self.login.name:
            self._on_end(fields["pid"], fields["status"])

    def _name(self, process: Process, function: Callable[[], object]) -> None:
        """Give a new process its role, by what has forked it."""
        above = process.parent
        if above is not None and above.name == "lane guard":
            process.role, process.name = "lane", "lane launcher"
            return
        if above is None or process.role in {"runner", "stranger"} or above.pid == 1:
            return
        roles = {"guard": "launcher", "worker": "child", "child": "child"}
        logs = "log_process" in getattr(function, "__module__", "")
        process.role = roles.get(above.role, "logs" if logs else "helper")
        process.name = f"{process.role} of {above.pid}"

    def _program(
        self, process: Process, argv: Sequence[bytes], env: Mapping[bytes, bytes]
    ) -> Callable[[], object]:
        """Return what a worker runs, and record that it is one."""
        if b"RANK" not in env:
            return self._tool(process, argv)
        rank, place = int(env[b"RANK"]), (env[b"MASTER_ADDR"], env[b"MASTER_PORT"])
        process.role, process.name = "worker", f"rank {rank}"
        job = self.job_of(env)
        of = job.get("of")
        life = self._lives.get((of, rank), -1) + 1
        self._lives[of, rank] = life
        rounds = self._rounds.setdefault(of, {})
        number = rounds.setdefault(place, len(rounds) + 1)
        size = int(env[b"WORLD_SIZE"])
        self._newest[process.host.name] = number
        given = {"pid": process.pid, "rank": rank, "world": size, "round": number}
        self.record(process.host.name, "worker", **given, **job)

        def tell(kind: str, **fields: Any) -> None:
            self.record(process.host.name, kind, **fields, **job)

        reads = bool(self.scenario.streams.lines) and rank == 0
        elastic = self.scenario.elastic
        if elastic is not None and elastic.notice_by == "SIGUSR1":
            system.set_handler(signal.SIGUSR1, signal.SIG_IGN)
        return Worker(self.program_of(of), env, life, number, tell, reads=reads)

    def _tool(self, process: Process, argv: Sequence[bytes]) -> Callable[[], object]:
        """Return what a command on a host does, if it is not a worker."""
        spec = next((one for one in self.all_hosts if one.name == process.host.name), None)
        if argv[-1].endswith(HEALTH.encode()):
            return lambda: int(spec is not None and spec.sick)
        if len(argv) > 2 and argv[-2].endswith(b"/agent.py"):
            process.role, process.name = "agent", "torch's agent"
            self.record(process.host.name, "role", pid=process.pid, role="agent")
            return TorchAgent(json.loads(argv[-1]))
        return run_tool(argv)

    def job_of(self, env: Mapping[bytes, bytes]) -> dict[str, int]:
        """Return the number of the job of a worker with this environment, if there are several."""
        del env
        return {}

    def program_of(self, job: int | None) -> ProgramSpec:
        """Return what the workers of a job do."""
        del job
        return self.scenario.program

    # -- the job -----------------------------------------------------------------------------

    def play(self) -> Outcome:
        """Play to the end; return what has become of it."""
        scenario = self.scenario
        self._begin()
        self.runner = self.kernel.spawn(
            self.login,
            self._run,
            argv=[b"dsrun"],
            fds=self.streams.given(),
            role="runner",
            name="dsrun",
        )
        self.runner.uid = 0
        self.faults.begin()
        while self.runner.alive and self.kernel.now < self.bound:
            self.kernel.run(self.kernel.now + 1.0)
        self.faults.end()
        healed = max((fault.after + fault.heals for fault in scenario.faults), default=0.0)
        self.kernel.run(self.kernel.now + healed + AFTERWARDS + 2 * scenario.lease + scenario.grace)
        return self._outcome()

    def _begin(self) -> None:
        """Record what is asked for, and make the files that the runner writes."""
        scenario = self.scenario
        nodes = {host.name: host.workers for host in scenario.hosts}
        elastic = scenario.elastic
        self.record(
            "login",
            "job",
            nodes=nodes,
            elastic=elastic is not None,
            least=elastic.least if elastic else scenario.least or len(nodes),
            max_restarts=elastic.restarts if elastic else 0,
            window=elastic.window if elastic else 0.0,
            grace=scenario.grace,
            lease=scenario.lease,
            background=scenario.background,
            bound=self.bound,
        )
        for line in self.streams.lines:
            self.record("login", "fed", line=line)
        for host in self.all_hosts:
            if host.code or host.sick or (host.start == "slow" and scenario.start_timeout < 60.0):
                self.record(host.name, "fault", fault="unfit", target=host.name)
        for number, look in enumerate(scenario.looks):
            self._look(number, look)

    def _look(self, number: int, look: Look) -> None:
        """Let a command ask the job."""

        def tell(what: str) -> None:
            asked = looks.REQUESTS[look.what]
            if what == "asked" and "number" in asked:
                given = {"what": look.what, "number": asked["number"]}
                self.record("login", "fault", fault="signal", target="runner", **given)
            self.record("login", "look", number=number, asks=look.what, what=what)

        run = partial(looks.look, look, JOB, tell)
        one = self.kernel.spawn(self.login, run, [b"dsrun-job"], role="look", name=look.what)
        one.uid = 0

    @property
    def bound(self) -> float:
        """When the job must have ended, in seconds of the world."""
        one = self.scenario
        again = len(one.faults) + 2 * len(one.changes)
        lives = 1 + (one.elastic.restarts + again if one.elastic else 0)
        work = lives * (one.program.steps + one.program.shards + 1) * (one.program.pause + 3.0)
        healing = sum(fault.heals + fault.after for fault in one.faults)
        feeding = one.streams.lines * (one.streams.pause + 0.3)
        waiting = lives * 2 * LONGEST if one.program.meets else 0.0
        return (
            200.0
            + waiting
            + work
            + feeding
            + healing
            + (lives + 2) * (one.lease + one.grace + 10.0)
        )

    def _run(self) -> int:
        """Be the runner; return its exit code."""
        self.streams.open_others()
        spec, remote = self.job(), cast("Any", self.remote)
        start = PreparedStart(spec.plan, [Part(remote, spec.plan.nodes)])
        loop = Loop()
        console = Console(loop, fold="never", environ={})

        def backend_for(node: Node) -> Part:
            return Part(remote, [node])

        def prepare(spec: JobSpec, fleet: NodeFleet, console: Screen) -> OneProgram:
            program = OneProgram(spec, fleet, console)
            self._observe(program, loop)
            return program

        ending = launch.launch(spec, start, backend_for, loop, console, programs=prepare)
        if ending.error is not None:
            system.write_error(f"dsrun: {ending.error}\n")
        return ending.code

    def job(self) -> JobSpec:
        """Return the job of the scenario."""
        one = self.scenario
        hosts = [Host(spec.name, tuple(range(spec.workers))) for spec in one.hosts]
        elastic = one.elastic
        by_torch = elastic is not None and elastic.torch == "rendezvous"
        return JobSpec(
            job_id=JOB,
            plan=self._plan(hosts),
            workdir=FOLDER,
            travel=ForwardedEnv({"DSRUN_ACCELERATOR": "cpu"}),
            supervision=SupervisionPolicy(
                start_timeout=one.start_timeout,
                heartbeat_timeout=one.lease,
                grace=one.grace,
                allow_background=one.background,
                graceful_term_ok=one.clean,
            ),
            checks=CheckPolicy(
                quick=one.checked,
                health_command=HEALTH if one.health else "",
                least=one.least or None,
            ),
            watch=WatchPolicy(
                hang_timeout=one.hang, on_hang="stop" if one.stops_hang else "report", hook=False
            ),
            output=OutputPolicy(
                log_dir=LOGS if one.logs else "",
                report_file=REPORT,
                fold="never",
                color="never",
                stdin=one.streams.lines > 0,
            ),
            workers=WorkerPolicy(shard_queue=one.program.shards > 0),
            elastic=_policy(elastic, one) if elastic and not by_torch else None,
        )

    def _plan(self, hosts: Sequence[Host]) -> Plan:
        elastic, met = self.scenario.elastic, None
        if elastic is not None and elastic.torch == "rendezvous":
            met = Rendezvous("c10d", "", JOB, 1, 1, {"timeout": "60"}, "", elastic.restarts, 0.1)
        program = Program(SCRIPT, python=PYTHON)
        launcher = "openmpi" if self.scenario.engine else "ssh"
        return Plan(lay_out(hosts), program, launcher, None, None, rendezvous=met)

    def _change(self, program: OneProgram, loop: Loop, change: Change) -> None:
        """Ask the job, as `dsrun-job scale` or the watch of a hostfile does."""
        if change.nodes:
            with suppress(UsageError):
                check_size(program.view(), change.nodes)
                program.handle(runner_rounds.resize, change.nodes)
            return
        self.record("login", "listed", hosts=[*change.hosts])
        known = {spec.name: spec for spec in self.all_hosts}
        hosts = [Host(name, tuple(range(known[name].workers))) for name in change.hosts]
        if not list_hosts(program.view, program.handle, hosts):
            loop.call_later(1.0, partial(self._change, program, loop, change))
            return
        for name in (one for one in known if one not in change.hosts):
            self.record("login", "fault", fault="remove", target=name)

    def _observe(self, program: OneProgram, loop: Loop, **number: int) -> None:
        """Record what observers of a job are told; `number` is its own, if there are several."""
        for change in self.scenario.changes:
            loop.call_later(change.after, partial(self._change, program, loop, change))
        observer = Observer(self, number, elastic=program.spec.elastic is not None)
        program.observed.observe(observer.observe)

    def began(self, ranks: Mapping[str, Sequence[int]], job: Mapping[str, int]) -> None:
        """Record a round of which the runner knows all workers.

        Of torch's rendezvous it may hear the end of a round only when the next one has begun.
        """
        number = self._newest[next(iter(ranks))]
        elastic = self.scenario.elastic
        known = (one.fields["number"] for one in self.history if one.kind == "round")
        if elastic is not None and elastic.torch == "rendezvous" and number in known:
            return
        self.record("login", "round", number=number, ranks=ranks, **job)
        if number == 1 and self.scenario.hold is None:
            self.kernel.at(HELD_UNTIL, self._look_at_ports)

    def _look_at_ports(self) -> None:
        """Record which ports are held on the hosts of a job that runs."""
        if self.runner is not None and self.runner.alive:
            hosts = [self.kernel.hosts[spec.name] for spec in self.all_hosts]
            self.record("login", "held", ports={one.name: sorted(one.ports) for one in hosts})

    # -- the end -----------------------------------------------------------------------------

    def _on_end(self, pid: int, status: int) -> None:
        """Record what the runner has left when it ended."""
        if self.runner is None or pid != self.runner.pid:
            return
        for line, rank in lines_of(self._printed(), self._file(ERRORS)):
            self.record("login", "shown", rank=rank, line=line)
        report = self._file(REPORT)
        if report:
            self.record("login", "report", report=json.loads(report))
        code = os.waitstatus_to_exitcode(status)
        self.record("login", "exit", code=code, signalled=code < 0)

    def _outcome(self) -> Outcome:
        left = self.kernel.leaks()
        files = [one for one in left["files"] if not _expected(one)]
        self.record(
            "login",
            "left",
            processes=left["processes"],
            ports=left["ports"],
            files=files,
            strangers_killed=self._strangers_killed(),
        )
        crashes = [_crash(process, problem) for process, problem in self.kernel.crashes]
        output = self._printed() + self._file(ERRORS)
        return Outcome(self.history, crashes, self.kernel.now, output)

    def _printed(self) -> str:
        return self._file(OUTPUT) + self.streams.unread().decode("utf-8", "replace")

    def _file(self, path: str) -> str:
        node = self.login.files.get(path)
        return bytes(node.data).decode("utf-8", "replace") if node is not None else ""

    def _strangers_killed(self) -> list[str]:
        return [
            f"{host.name}: {process.name}"
            for host in self.kernel.hosts.values()
            for process in host.processes.values()
            if process.role == "stranger" and not process.alive
        ]


class Observer:
    """Records what the observers of one run are told."""

    def __init__(self, world: World, job: Mapping[str, int], *, elastic: bool) -> None:
        """Record it in this world; `job` is the number of the run, if there are several."""
        self._world = world
        self._job = job
        self._elastic = elastic
        self._hosts: list[str] = []
        self._ranks: dict[str, list[int]] = {}
        self._restarts = 0

    def observe(self, event: object) -> None:
        """Record an event."""
        match event:
            case Started(hosts=names) if not self._elastic:
                self._begin(names)
            case Round(hosts=names, restarts=restarts):
                self._begin(names)
                for count in range(self._restarts, restarts):
                    self._record("restart", reason="", count=count + 1)
                self._restarts = max(restarts, self._restarts)
            case RanksStarted(host, started):
                self._ranks[host] = [*started]
                self._flush()
            case Lost(host, reason, survived):
                self._record("lost", node=host, reason=reason, survived=survived)

    def _begin(self, names: Sequence[str]) -> None:
        self._ranks.clear()
        self._hosts[:] = names

    def _flush(self) -> None:
        if self._hosts and all(name in self._ranks for name in self._hosts):
            self._world.began({name: self._ranks[name] for name in self._hosts}, self._job)
            self._hosts.clear()

    def _record(self, kind: str, **fields: object) -> None:
        self._world.record("login", kind, **fields, **self._job)


def patience(grace: float) -> float:
    """Return the seconds for the nodes of a broken round to be ready again, as in real jobs."""
    return grace + elastic_plans.MARGIN


def _policy(spec: ElasticSpec, one: Scenario) -> ElasticPolicy:
    most = spec.most or len(one.hosts)
    fields = {**spec._asdict(), "most": most, "final": frozenset(spec.final)}
    fields["agent"] = "torch" if fields.pop("torch") else "dsrun"
    return ElasticPolicy(**fields, patience=patience(one.grace))


def _crash(process: Process, problem: BaseException) -> str:
    lines = traceback.format_exception(problem)
    return f"{process}:\n{''.join(lines)}"


def _expected(file: str) -> bool:
    """Return whether a file may be left: a log, or the report."""
    path = file.partition(": ")[2]
    return path.startswith((LOGS, REPORT, f"{FOLDER}/out", f"{FOLDER}/err")) or path in FILES
