"""A fleet of nodes that a test plays, and runs on it: no command line, no process, no second.

Fleet and runs are the real ones, on a clock that goes when told. The nodes are sockets
(`fake_nodes.FakeNode`): a test has them speak, looks at what they are sent, and at what is shown.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, cast

from dsrun.launcher.backends.base import Part
from dsrun.launcher.common.errors import NodeError
from dsrun.launcher.control import frames, messages
from dsrun.launcher.head import doors
from dsrun.launcher.head.fleet.fleet import NodeFleet
from dsrun.launcher.head.job.ending import ending_of
from dsrun.launcher.head.run.restart_policy import NoRestarts
from dsrun.launcher.head.run.run import Run, RunOverrides
from dsrun.launcher.head.run.run_state import RunState
from dsrun.launcher.head.run.run_view import RunPhase, RunView
from dsrun.launcher.specs.host import Host
from dsrun.launcher.specs.job import JobSpec
from dsrun.launcher.specs.plan import Plan, lay_out
from dsrun.launcher.specs.policies import SupervisionPolicy
from dsrun.launcher.specs.program import Program

from .clock import Clock
from .fake_nodes import FakeNode

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dsrun.launcher.backends.base import DialBack
    from dsrun.launcher.backends.events import BackendEvent, Emit
    from dsrun.launcher.common.loop import Loop
    from dsrun.launcher.head.output.console import Console
    from dsrun.launcher.head.run.gate import Gates
    from dsrun.launcher.head.run.restart_policy import RestartPolicy
    from dsrun.launcher.head.run.run_node import RunNode
    from dsrun.launcher.head.run.startup import AllReady
    from dsrun.launcher.specs.plan import Node

TICK = 0.5
"""Seconds between two looks of a test's at what time brings."""


class FakeConsole:
    """Keeps what is shown.

    Attributes:
        said: (level, text) of every line of dsrun's own.
        labels: of each rank, with the streams that are shown.
        printed: (rank, stream, data) of what workers wrote.
        state: the line that replaces itself.
        level: the least level that is shown.
        folds: it prints every line.
        has_lost_output: it loses none.
    """

    folds = has_lost_output = False

    def __init__(self) -> None:
        self.said: list[tuple[str, str]] = []
        self.labels: dict[int, tuple[str, set[int]]] = {}
        self.printed: list[tuple[int, int, bytes]] = []
        self.state = ""
        self.level = "info"
        self._written: list[Callable[[], None]] = []

    def log(self, text: str, level: str = "info") -> None:
        """Keep a line."""
        self.said.append((level, text))

    def shows(self, level: str) -> bool:
        """Return whether lines of this level are shown."""
        return level != "debug" or self.level == "debug"

    def status(self, text: str) -> None:
        """Replace the line."""
        self.state = text

    def label(self, rank: int, text: str, streams: set[int]) -> None:
        """Keep a label."""
        self.labels[rank] = text, streams

    def feed(self, rank: int, stream: int, data: bytes, written: Callable[[], None]) -> None:
        """Keep output; it is not taken before `take`."""
        self.printed.append((rank, stream, data))
        self._written.append(written)

    def take(self) -> None:
        """Let all output so far be taken by whoever reads it."""
        written, self._written = self._written, []
        for tell in written:
            tell()


class FakeBackend:
    """Starts nodes that are sockets.

    Attributes:
        made: all that were ever started.
        started: the numbers that it was told to start, call by call.
        emits: what it was given to tell events with, call by call.
        absent: hosts whose sessions never stand, until a test says more.
        refusal: why nothing can be started, "" for nothing.
        closed: how often it was closed.
    """

    transport: Literal["stdio", "dial"] = "stdio"

    def __init__(self) -> None:
        self.made: list[FakeNode] = []
        self.started: list[list[int]] = []
        self.emits: list[Emit] = []
        self.absent: set[str] = set()
        self.refusal = ""
        self.closed = 0
        self.dial: DialBack | None = None

    def start(self, nodes: Sequence[Node], loop: Loop, emit: Emit, dial: DialBack | None) -> None:
        """Start nodes, all but the absent ones."""
        self.started.append([node.rank for node in nodes])
        self.emits.append(emit)
        self.dial = dial
        if self.refusal:
            raise NodeError(self.refusal)
        for node in nodes:
            if node.host.name not in self.absent:
                self.made.append(FakeNode(node, loop, emit, _nothing))

    def close(self) -> None:
        """Count it."""
        self.closed += 1


class FakeFleet:
    """A fleet, its nodes and its console; runs on it begin with `run` or `start`.

    Attributes:
        fleet: the real one.
        backend: of all nodes.
        events: what `listen` has heard.
        prepared: its runs.
    """

    def __init__(self, *hosts: Host | str, lease: float = 15.0, shares: bool = False) -> None:
        self.clock = Clock()
        self.loop = self.clock.loop
        self.console = FakeConsole()
        self.backend = FakeBackend()
        self.hosts = {one.name: one for one in map(_host, hosts or ("n0", "n1"))}
        self.plan = lay_out(list(self.hosts.values()))
        log = self.console.log
        self.fleet = NodeFleet(
            self.plan, self.loop, log, lease, lambda node: self._part([node]), shares=shares
        )
        self.events: list[Any] = []
        self.prepared: list[Run] = []

    def _part(self, nodes: Sequence[Node]) -> Part:
        return Part(cast("Any", self.backend), nodes)

    # -- connections ------------------------------------------------------------------------

    def connect(self, dial: DialBack | None = None) -> None:
        """Have all nodes started."""
        self.fleet.connect([self._part(self.plan)], dial)
        self.step()

    def close(self) -> None:
        """End and close what a test has left open."""
        for run in self.prepared:
            run.handle(RunState.finish)
            self.tell_end(run)
        self.fleet.close_at_once()
        for node in self.backend.made:
            node.leaves()

    def node(self, name: str) -> FakeNode:
        """Return the newest node launcher of a host."""
        return next(node for node in reversed(self.backend.made) if node.name == name)

    def nodes(self, *names: str) -> list[FakeNode]:
        """Return those of some hosts, or of all."""
        return [self.node(name) for name in names or self.hosts]

    def emit(self, event: BackendEvent) -> None:
        """Have the backend tell something."""
        self.fleet.on_backend_event(event)
        self.step()

    def listen(self, *names: str) -> Callable[[Any], None]:
        """Use nodes as a run does that only listens; return what it listens with."""
        heard: list[Any] = []
        self.events = heard
        connections = [one for one in self.fleet.nodes.values() if one.name in names]
        self.fleet.lend(connections, heard.append)
        return heard.append

    # -- runs -------------------------------------------------------------------------------

    def prepare(
        self,
        *names: str,
        restarts: Callable[[RunState], RestartPolicy] = NoRestarts,
        plan: dict[str, Any] | None = None,
        gates: Callable[[Run], Gates] = doors.gates,
        on_ready: Callable[[AllReady], None] | None = None,
        on_over: Callable[[], None] | None = None,
        **spec: Any,
    ) -> Run:
        """Return a run on some hosts, or on all, that has not begun."""
        console = cast("Console", self.console)
        wanted = self.spec(*names, plan=plan, **spec)
        made = Run(wanted, self.fleet, console, restarts, gates, RunOverrides(on_ready, on_over))
        self.prepared.append(made)
        return self.prepared[-1]

    def spec(self, *names: str, plan: dict[str, Any] | None = None, **spec: Any) -> JobSpec:
        """Return a job on some hosts, or on all."""
        hosts = [self.hosts[name] for name in names or self.hosts]
        whole = Plan(lay_out(hosts), Program("x.py"), "ssh", None, None)._replace(**plan or {})
        policy = SupervisionPolicy(heartbeat_timeout=self.fleet.lease)
        usual = {"job_id": "job", "plan": whole, "workdir": "/work", "supervision": policy}
        return JobSpec(**usual | spec)

    def run(self, *names: str, **more: Any) -> Run:
        """Begin a run; what `prepare` takes."""
        run = self.prepare(*names, **more)
        run.start()
        self.step()
        return run

    def ready(self, run: Run | RunView | None = None, **facts: Any) -> None:
        """Have all nodes of a run, or of all hosts, say HELLO, and reach the master."""
        names = [one.name for one in nodes_of(run) if not one.reason] if run else self.hosts
        first, *others = map(self.node, names)
        first.hello(**{"port": 29500} | facts)
        for node in others:
            node.hello(**{"port": None} | facts)
        self.step()
        for node in others:
            if node.got(frames.PROBE)():
                node.reaches()
        self.step()

    def start(self, *names: str, **more: Any) -> Run:
        """Begin a run and have it started on all of its nodes, whose workers then run."""
        run = self.run(*names, **more)
        self.begin_workers(run)
        return run

    def begin_workers(self, run: Run | RunView, names: Sequence[str] = ()) -> None:
        """Have a run that has begun started on all nodes; workers run on these, or on all."""
        self.ready(run)
        for node in nodes_of(run):
            self.node(node.name).beats()
            self.step()
        for node in (one for one in nodes_of(run) if not names or one.name in names):
            self.up(node.name, *(one.rank for one in node.node.workers()))
        for node in nodes_of(run):
            self.news(node.name)

    def up(self, name: str, *ranks: int) -> None:
        """Have a node say that these workers run."""
        pids = tuple(4000 + rank for rank in ranks)
        self.node(name).says(messages.pack(frames.STARTED, messages.WorkersStarted(ranks, pids)))
        self.step()

    def end_well(self, run: Run | RunView) -> None:
        """Have all workers exit with 0, and every node say that nothing is left."""
        for node in nodes_of(run):
            for worker in node.node.workers():
                self.node(node.name).exits(worker.rank, 0)
            self.node(node.name).done()
        self.step()

    def tell_end(self, run: Run) -> None:
        """Tell the observers of a run that its job is over, as the job does."""
        if run.state.observers:
            run.state.observers.ended(ending_of(run.view()))

    # -- time, and what has come of it ------------------------------------------------------

    def step(self) -> None:
        """Let happen what can happen at once."""
        for _ in range(4):
            self.clock.go(0.0)

    def go(self, seconds: float, *, silent: Sequence[str] = ()) -> None:
        """Let time pass; all nodes but the silent ones give signs of life."""
        end = self.clock.now + seconds
        self.step()
        while self.clock.now < end:
            for node in self.backend.made:
                if node.open and node.name not in silent:
                    node.beats()
            self.clock.go(min(TICK, end - self.clock.now))
            self.step()

    def news(self, name: str) -> list[Any]:
        """Return the frames that a node has been sent since the last time, [name, value] each."""
        self.step()
        node = self.node(name)
        new = node.frames()
        node.received.clear()
        return new

    def kinds(self, name: str) -> list[str]:
        """Return what those are called."""
        return [kind for kind, _ in self.news(name)]

    def said(self, *levels: str) -> list[str]:
        """Return the lines since the last time, those of some levels or all but `debug`."""
        said, self.console.said[:] = list(self.console.said), []
        return [t for level, t in said if (level in levels if levels else level != "debug")]


def nodes_of(run: Run | RunView) -> Sequence[RunNode]:
    """Return the nodes of a run."""
    return run.nodes if isinstance(run, RunView) else run.state.nodes


def story(run: Run) -> dict[str, Any]:
    """Return how a run has ended, which is over, as --report_file has it."""
    assert run.state.phase is RunPhase.OVER
    return ending_of(run.view()).data


def losses(run: Run) -> dict[str, str]:
    """Return who was lost in a run, which is over, and why."""
    return {str(loss["host"]): str(loss["reason"]) for loss in story(run)["lost"]}


NOTHING_LEFT, NOT_STARTED = "nothing was left running", "no worker was started"
"""What is said of a start that was given up: the latter if a node has not been heard."""


def refusal(run: Run, known: str = NOTHING_LEFT) -> list[str]:
    """Return the reasons why a run, which is over, was not started."""
    assert run.state.phase is RunPhase.OVER
    assert isinstance(run.state.error, NodeError)
    head, *reasons = str(run.state.error).split("\n")
    assert head == f"the job cannot start; {known}:"
    return [line.strip() for line in reasons]


def _host(host: Host | str) -> Host:
    return Host(host, (0, 1)) if isinstance(host, str) else host


def _nothing() -> None:
    """Wait for nothing: the test itself looks."""
