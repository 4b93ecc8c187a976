"""A world whose nodes are held: the real hold on the runner's host, and clients that use it.

A client is played in the process of the hold itself: it calls the functions of the requests, as
the server of the local socket does, and gets answers, events and chunks as from a connection.
"""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING, Any, cast

from dsrun.launcher.backends.base import Part
from dsrun.launcher.common import system
from dsrun.launcher.common.errors import DsrunError
from dsrun.launcher.common.loop import Loop
from dsrun.launcher.control.messages import SessionEnd
from dsrun.launcher.features.hold import runner_requests as requests
from dsrun.launcher.features.hold.runner import Hold, HoldPhase
from dsrun.launcher.head.fleet.fleet import NodeFleet
from dsrun.launcher.head.job.one_program import OneProgram
from dsrun.launcher.head.output.console import Console
from dsrun.launcher.head.report.ending import Ending
from dsrun.launcher.node import main
from dsrun.launcher.specs import codec
from dsrun.launcher.specs.hold import HoldSpec
from dsrun.launcher.specs.host import Host
from dsrun.launcher.specs.plan import lay_out
from dsrun.launcher.specs.policies import ElasticPolicy

from .labelled import lines_of
from .world import FOLDER, World, patience

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from dsrun.launcher.common.loop import Timer
    from dsrun.launcher.features.jobs.runner_server import LocalCaller
    from dsrun.launcher.specs.job import JobSpec

    from .kernel import Process
    from .scenario import HeldCommand, HeldJob, ProgramSpec
    from .scenario import HoldSpec as Held

ENDS = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}
IDLE = {signal.SIGUSR1, signal.SIGUSR2, signal.SIGQUIT}
"""As in `features.hold.runner_serve`, which handles the signals of the real process."""

SETTLED = 3.0
"""Seconds of rest after which what a job has used must have been given back."""


class HoldWorld(World):
    """One world of held nodes.

    Attributes:
        held: what happens on them.
    """

    @property
    def held(self) -> Held:
        """What happens on the nodes."""
        assert self.scenario.hold is not None
        return self.scenario.hold

    @property
    def bound(self) -> float:
        """When the hold must have ended, in seconds of the world."""
        jobs, rests = len(self.held.jobs), len(self.held.groups) + 1
        stops = sum(job.stop for job in self.held.jobs) + 10.0 * len(self.held.commands)
        return super().bound * (jobs + 1) + stops + self.held.rest * rests

    def job_of(self, env: Mapping[bytes, bytes]) -> dict[str, int]:
        """Return the number of the job of a worker with this environment."""
        return {"of": int(env[b"DSRUN_JOB_ID"][-6:])}

    def program_of(self, job: int | None) -> ProgramSpec:
        """Return what the workers of a job do."""
        program = self.scenario.program
        does = job is not None and self.held.jobs[job].deeds
        return program if does else program._replace(deeds=())

    def _program(
        self, process: Process, argv: Sequence[bytes], env: Mapping[bytes, bytes]
    ) -> Callable[[], object]:
        if argv[-1] == b"--stdio":
            process.role, process.name = "lane", "lane guard"
            self.record(process.host.name, "role", pid=process.pid, role="lane")
            return lambda: main.main(["--stdio"])
        return super()._program(process, argv, env)

    def _begin(self) -> None:
        held, one = self.held, self.scenario
        nodes = {host.name: host.workers for host in one.hosts}
        counts = {"jobs": len(held.jobs), "commands": len(held.commands)}
        self.record("login", "hold", nodes=nodes, bound=self.bound, **counts)
        for name in ("out", "err", *(f"{s}-{n}" for n in range(len(held.jobs)) for s in STREAMS)):
            self.login.files.put(f"{FOLDER}/{name}", b"", mode=0o666)

    def _run(self) -> int:
        """Be the hold, as `features.hold.runner_serve`; return its exit code."""
        self.streams.open_others()
        spec = self.job()
        spec = spec._replace(held=True, elastic=None, output=spec.output._replace(report_file=None))
        parts = [Part(cast("Any", self.remote), spec.plan.nodes)]
        loop = Loop()
        console = Console(loop, fold="never", environ={})
        lease = self.scenario.lease
        fleet = NodeFleet(spec.plan.nodes, loop, lambda *said: hold.log(*said), lease, shares=True)  # noqa: PLW0108  # no hold yet
        hold = Hold(HoldSpec("lab", spec), fleet, console)

        def act(number: int) -> None:
            if number in ENDS:
                hold.stop(number)
            elif number == signal.SIGTSTP:
                fleet.suspend()

        loop.on_signals({*ENDS, *IDLE, signal.SIGTSTP}, act)
        hold.when_ready(Script(self, hold).begin)
        try:
            hold.start()
            fleet.connect(parts)
            loop.run()
            fleet.close(SessionEnd(hold.code, ""))
        finally:
            fleet.close_at_once()
            console.close()
        if hold.error is None:
            return hold.code
        system.write_error(f"dsrun-hold: {hold.error}\n")
        return hold.error.exit_code

    def held_job(self, number: int) -> JobSpec:
        """Return the spec of a job, as its client sends it."""
        one, whole, elastic = self.held.jobs[number], self.job(), self.scenario.elastic
        hosts = [Host(name, tuple(range(first, end))) for name, first, end in one.slots]
        most = len(hosts)
        limits = None
        if elastic is not None and one.elastic:
            least = min(elastic.least, most)
            limits = ElasticPolicy(
                *(least, most, elastic.restarts),
                wait=elastic.wait,
                cool=elastic.cool,
                patience=patience(self.scenario.grace),
            )
        return whole._replace(
            job_id=f"20260101-000000-{number:06}",
            plan=whole.plan._replace(nodes=lay_out(hosts)),
            output=whole.output._replace(report_file=None),
            elastic=limits,
        )

    def begin_job(self, number: int) -> None:
        """Record what a client asks for."""
        one, spec, scenario = self.held.jobs[number], self.held_job(number), self.scenario
        self.record(
            "login",
            "job",
            of=number,
            nodes={name: end - first for name, first, end in one.slots},
            elastic=spec.elastic is not None,
            least=spec.elastic.least if spec.elastic else len(one.slots),
            max_restarts=spec.elastic.restarts if spec.elastic else 0,
            window=spec.elastic.window if spec.elastic else 0.0,
            grace=scenario.grace,
            lease=scenario.lease,
            background=False,
            bound=self.kernel.now + super().bound * len(self.held.jobs) + one.stop,
        )

    def end_job(self, number: int, code: int, report: object) -> None:
        """Record what a client is answered."""
        for line, rank in lines_of(*(self._file(f"{FOLDER}/{name}-{number}") for name in STREAMS)):
            self.record("login", "shown", rank=rank, line=line, of=number)
        if report is not None:
            self.record("login", "report", report=report, of=number)
        self.record("login", "exit", code=code, signalled=code < 0, of=number)

    def look(self, when: str, timers: int) -> None:
        """Record what the hold and the node launchers have open."""
        hosts = [host for host in self.kernel.hosts.values() if host.on]
        for host in hosts:
            found = [one for one in host.processes.values() if one.role != "stranger"]
            own = [one for one in found if one.role in {"runner", "guard", "launcher"}]
            self.record(
                host.name,
                "resources",
                when=when,
                descriptors=sum(one.descriptors for one in own),
                timers=timers if host is self.login else len(found),
                lanes=sum(one.role == "lane" for one in found),
            )

    def _on_end(self, pid: int, status: int) -> None:
        if self.runner is not None and pid == self.runner.pid:
            code = os.waitstatus_to_exitcode(status)
            answered = {event.fields["of"] for event in self.history if event.kind == "exit"}
            begun = [event.fields["of"] for event in self.history if event.kind == "job"]
            for number in begun if code < 0 else ():
                if number not in answered:
                    self.end_job(number, code, None)
            self.record("login", "hold_exit", code=code)


STREAMS = ("out", "err")


class Client:
    """One client: what a hold uses of a `LocalCaller`."""

    pending = 0

    def __init__(
        self, on_answer: Callable[[int, object], None], on_event: Callable[[dict[str, Any]], None]
    ) -> None:
        self.open = True
        self.on_close: list[Callable[[], None]] = []
        self._on_answer = on_answer
        self._on_event = on_event

    def answer(self, message: dict[str, Any], request: object = None) -> None:
        """Get an answer."""
        del request
        self._on_answer(message["code"], message["report"])

    def refuse(self, error: DsrunError, request: dict[str, Any]) -> None:
        """Get a refusal."""
        self._on_answer(error.exit_code, Ending(str(request.get("id")), error).data)

    def event(self, message: dict[str, Any]) -> None:
        """Get an event."""
        self._on_event(message)

    def chunk(self, data: bytes, written: Callable[[], None] | None = None) -> None:
        """Get bytes."""
        del data
        if written is not None:
            written()

    def leave(self) -> None:
        """End the connection."""
        self.open = False
        calls, self.on_close = self.on_close, []
        for call in calls:
            call()


class Script:
    """What clients do on a hold, from when it is ready to its release."""

    def __init__(self, world: HoldWorld, hold: Hold) -> None:
        self._world = world
        self._hold = hold
        self._loop = hold.loop
        self._numbers = iter(range(len(world.held.jobs)))
        self._groups = iter(world.held.groups)
        self._open: set[int] = set()
        self._looked = False

    def begin(self) -> None:
        """Use the nodes, if they can be used."""
        if self._hold.phase is not HoldPhase.SERVING:
            return
        self._world.record("login", "serving")
        for number, command in enumerate(self._world.held.commands):
            PlayedCommand(self._world, self._hold, number, command).begin()
        self._loop.call_later(self._world.held.rest, self._next)

    def _next(self) -> None:
        """Begin the jobs of a group, or release the nodes."""
        if self._hold.phase is not HoldPhase.SERVING:
            return
        group = next(self._groups, None)
        self._look("after")
        if group is None:
            client = cast("LocalCaller", Client(_nothing, _nothing))
            requests.release(self._hold, client, {"do": "release"}, [])
            return
        self._look("before")
        numbers = [next(self._numbers) for _ in group]
        self._open = {*numbers}
        for number, job in zip(numbers, group, strict=True):
            self._ask(number, job)

    def _look(self, when: str) -> None:
        """Look at what is open, if there was time enough to close it."""
        if self._world.held.rest >= SETTLED and (self._looked or when == "before"):
            self._world.look(when, len(self._loop._timers))
            self._looked = True

    def _program_of(self, job_id: str) -> OneProgram | None:
        """Return the program of a job that has begun, and has not ended."""
        held = self._hold.runs.get(job_id)
        program = held.job.programs if held is not None else None
        return program if isinstance(program, OneProgram) else None

    def _ask(self, number: int, job: HeldJob) -> None:
        """Ask for a run, as a client."""
        self._world.begin_job(number)
        observed: list[object] = []
        timers: list[Timer] = []

        def observe(_event: object = None) -> None:
            program = self._program_of(spec.job_id)
            if program is not None and not observed:
                observed.append(program)
                self._world._observe(program, self._loop, of=number)

        def over(code: int, report: object) -> None:
            self._world.end_job(number, code, report)
            self._loop.call_later(0.01, client.leave)
            self._open.discard(number)
            for timer in timers:
                timer.cancel()
            if not self._open:
                self._loop.call_later(0.0, self._rest)

        client = Client(over, observe)
        spec = self._world.held_job(number)
        request = {"do": "run", "id": 1, "spec": codec.encode(spec), "relay": job.relay}
        fds = [system.open_fd(os.devnull, os.O_RDONLY | os.O_CLOEXEC)]
        flags = os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC
        fds += [system.open_fd(f"{FOLDER}/{name}-{number}", flags) for name in STREAMS]
        if job.stop:
            timers.append(self._loop.call_later(job.stop, lambda: self._interrupt(number, client)))
        try:
            requests.run(self._hold, cast("LocalCaller", client), request, fds)
        except DsrunError as error:
            for fd in fds:
                system.close(fd)
            client.refuse(error, request)
        observe()

    def _interrupt(self, number: int, client: Client) -> None:
        """Type Ctrl-C at a client, if it is still there."""
        if number in self._open and client.open:
            given = {"what": "signal job", "number": signal.SIGINT, "of": number}
            self._world.record("login", "fault", fault="signal", target="runner", **given)
            caller = cast("LocalCaller", client)
            requests.signal(self._hold, caller, {"number": int(signal.SIGINT)}, [])

    def _rest(self) -> None:
        self._world.record("login", "resting")
        self._loop.call_later(self._world.held.rest, self._next)


class PlayedCommand:
    """A client that runs a command on a held node."""

    def __init__(self, world: HoldWorld, hold: Hold, number: int, command: HeldCommand) -> None:
        self._world = world
        self._hold = hold
        self._number = number
        self._command = command
        self._client = Client(_nothing, self._on_event)
        self._caller = cast("LocalCaller", self._client)

    def begin(self) -> None:
        """Start it at its time."""
        self._hold.loop.call_later(self._command.after, self._start)

    def _start(self) -> None:
        one = self._command
        self._tell("command", what=one.what)
        try:
            if one.what == "read":
                self._ask("program", program="facts", host=one.host, id=1, arguments=[])
                self._ask("program_input", program=1, data="a line\n" * 40_000)
            else:
                self._ask("exec", argv=["tool", one.what], hosts=[one.host], readers=[])
        except DsrunError as error:
            self._tell("command_end", code=error.exit_code)
            return
        if one.stop:
            self._hold.loop.call_later(one.stop, self._stop)

    def _stop(self) -> None:
        if self._command.what == "read":
            self._ask("program_input", program=1, data="")
        else:
            self._ask("exec_stop")

    def _ask(self, do: str, **fields: Any) -> None:
        requests.VERBS[do](self._hold, self._caller, {"do": do, **fields}, [])

    def _on_event(self, event: dict[str, Any]) -> None:
        if event["event"] in {"ended", "failed", "program_ended"}:
            self._tell("command_end", code=event.get("code", 255))
            self._hold.loop.call_later(0.01, self._client.leave)

    def _tell(self, kind: str, **fields: Any) -> None:
        self._world.record(self._command.host, kind, number=self._number, **fields)


def _nothing(*_arguments: object) -> None:
    """Do nothing."""
