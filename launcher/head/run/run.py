"""One program on the nodes of a fleet, started and stopped on all of them together."""

from __future__ import annotations

import os
import signal
from functools import partial

from ...common.event_queue import EventQueue
from ...common.loop import DueTimer
from ...common.records import NamedTuple
from ...control import frames, messages
from ...specs.plan import Node
from ..fleet.events import NodeSent
from ..output.filter import OutputFilter
from . import fleet_events, node_frames, run_signals, run_start
from .gate import Gates, GateStage
from .node_jobs import tasks
from .output import RunOutput
from .restart_policy import NoRestarts
from .run_node import RunNode, members
from .run_state import RunState
from .run_view import RunPhase, RunView
from .start_message import window

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Concatenate, ParamSpec, Protocol, TypeAlias

    from ...specs.host import Host
    from ...specs.job import JobSpec
    from ..fleet.events import FleetEvent
    from ..fleet.fleet import NodeFleet
    from ..fleet.node_connection import NodeConnection
    from ..output.screen import Screen
    from ..report.ending import Ending
    from .events import Observer, RunEvent
    from .restart_policy import RestartPolicy
    from .running_ranks import Workers
    from .startup import AllReady
    from .stdin import Stdin

    P = ParamSpec("P")
    Happening: TypeAlias = Callable[Concatenate[RunState, P], object]

    class Handle(Protocol):
        """Passes an event to a run, as `Run.handle` does."""

        def __call__(
            self, happened: Happening[P], /, *args: P.args, **kwargs: P.kwargs
        ) -> None: ...

    Restarts = Callable[[RunState], RestartPolicy]


class RunOverrides(NamedTuple):
    """Reactions of the owner of a run that replace the usual ones; None keeps the usual one.

    Attributes:
        on_ready: called once all nodes are ready; starts the run with `Run.handle`.
        on_over: called when the run is over, instead of stopping the loop.
        greeting: returns a frame for each node that connects after the start.
        on_unreached: called with a node that could not be reached again; the run keeps trying.
    """

    on_ready: Callable[[AllReady], None] | None = None
    on_over: Callable[[], None] | None = None
    greeting: Callable[[], bytes] | None = None
    on_unreached: Callable[[RunNode], None] | None = None


class RunEffects:
    """The actions of one run (`RunActions`).

    Attributes:
        stages: the stages that have gates.
        input_fd: the descriptor of the input that is forwarded to rank 0, if requested.
        stdin: forwards this input; None before the start.
    """

    input_fd = 0
    stdin: Stdin | None = None

    def __init__(self, run: Run, console: Screen, owner: RunOverrides) -> None:
        """Act for a run, unless its owner replaces the action."""
        self._fleet, self._owner, self._handle = run.fleet, owner, run.handle
        self._gates, self._send_job = run.gates, run.send_job
        self.stages, self.check = run.gates.stages, run.gates.check
        self.on_gate_frame = run.gates.on_frame
        self._closers: list[Callable[[], object]] = []
        self.log, self.status = console.log, console.status
        self.label, self.label_node = run.output.label, run.output.label_node
        self.suspend, self.send_beats = run.fleet.suspend, run.fleet.watch

    # -- nodes ----------------------------------------------------------------------------------

    def send(self, nodes: Sequence[RunNode], frame: bytes) -> None:
        """Send these nodes a frame."""
        for node in nodes:
            node.send(frame)

    def close_line(self, node: RunNode, reason: str) -> None:
        """Close the connection to a node."""
        node.connection.close(reason)

    def expect_beats(self, node: RunNode) -> None:
        """Expect heartbeats of this node from now on."""
        self._fleet.expect_beats(node.connection)

    def reach(self, node: RunNode) -> None:
        """Start the node launcher of a lost or an added node."""
        self._fleet.reach(node.connection)

    def unreached(self, node: RunNode) -> None:
        """Tell the owner of the run that a node could not be reached again."""
        if self._owner.on_unreached is not None:
            self._owner.on_unreached(node)

    def ready(self, ready: AllReady) -> None:
        """Start the workers, unless the owner of the run does so itself."""
        if self._owner.on_ready is not None:
            self._owner.on_ready(ready)
        else:
            self._handle(run_start.start, ready)

    def forward_input(self, node: RunNode) -> None:
        """Forward standard input to this node."""
        from .stdin import Stdin

        self.stdin = Stdin(self._fleet.loop, node.send, self.input_fd)

    # -- gates ----------------------------------------------------------------------------------

    def ask(self, node: RunNode) -> None:
        """Send this node its JOB as soon as the gates before that let it pass."""
        node.change_job = None

        def on_checked(refused: Mapping[RunNode, str], _lines: Sequence[str]) -> None:
            if refused:
                self._handle(run_start.fail_start, node, refused[node])
            else:
                self._send_job(node)

        self._gates.check((GateStage.JOB,), (node,), on_checked)

    # -- questions ------------------------------------------------------------------------------

    def ask_allocation(self) -> None:
        """Ask Slurm whether the job's allocation has ended."""
        from ...features.schedulers.runner_allocation_end import ask

        see = partial(ask, self._fleet.loop, os.environ)
        self.close_too(see(lambda end: self._handle(run_signals.on_allocation, end)))

    def show_stacks(self, nodes: Sequence[RunNode], workers: Workers) -> None:
        """Print the stacks of the running ranks as soon as their nodes have sent them."""
        from ...features.stacks import runner_collect as collect

        collect.show(self._fleet, nodes, workers, self.log)

    # -- the end --------------------------------------------------------------------------------

    def close_too(self, close: Callable[[], object]) -> None:
        """Call `close` when the run is stopped or over."""
        self._closers.append(close)

    def close_services(self) -> None:
        """Close the gates, and stop the search for other hosts."""
        self._gates.close()
        while self._closers:
            self._closers.pop()()

    def finish(self) -> None:
        """End the run: close its services and tell its owner."""
        self.close_services()
        (self._owner.on_over or self._fleet.loop.stop)()


class Run:
    """A program on some nodes of a fleet: passes events to its state, and carries out actions.

    All events go through one queue, so that an event caused by an action is handled only after the
    current step.

    Attributes:
        state: the state of the run, changed only by `handle`.
        output: prints the output of the workers.
        gates: hold its nodes back.
        debugging: the ranks that a debugger is attached to, or that wait for one.
        effects: carries out the actions.
    """

    def __init__(
        self,
        spec: JobSpec,
        fleet: NodeFleet,
        console: Screen,
        restarts: Restarts = NoRestarts,
        gates: Callable[[Run], Gates] = lambda _run: Gates(),
        owner: RunOverrides | None = None,
    ) -> None:
        """Prepare a run on those nodes of the fleet that are in the plan.

        Raises:
            UsageError: the fleet has none of these nodes, or a gate before JOB cannot work.
        """
        self.spec, self.fleet, self.loop = spec, fleet, fleet.loop
        self._console, self._greeting = console, owner.greeting if owner else None
        self._task = tasks(spec)
        nodes = members(spec.plan, fleet, spec.backend.lane_entry)
        size = window(len(nodes))
        self.output = RunOutput(console, OutputFilter(spec), size)
        self._queue, self.gates = EventQueue(), gates(self)
        self.effects = RunEffects(self, console, owner or RunOverrides())
        times = self.loop.clock(), self.loop.awake()
        self.state = RunState(spec, nodes, restarts, self.effects, self._find, *times)
        self.debugging: set[int] = set()
        expire = partial(self.handle, fleet_events.time_passed)
        self._alarm = DueTimer(self.loop, self.loop.awake, expire)
        self.gates.open(GateStage.JOB)
        if (observer := self.state.restarts.observer) is not None:
            self.observe(observer)

    # -- what happens, and what follows -------------------------------------------------------

    def handle(self, happened: Happening[P], /, *args: P.args, **kwargs: P.kwargs) -> None:
        """Pass an event to the state, after the events already in the queue.

        Once the run is over, only a signal that ends runs is still recorded; all else is ignored,
        because another run may use the nodes by then.

        Args:
            happened: a method of `RunState`, or another function that takes the state.
            args: the positional arguments of `happened`.
            kwargs: the keyword arguments of `happened`.

        Raises:
            BadFrame: a node has sent an unexpected frame.
        """
        self._queue.put(self._step, partial(happened, self.state, *args, **kwargs))

    def _step(self, happened: partial[object]) -> None:
        state, loop = self.state, self.loop
        if state.phase is RunPhase.OVER:
            if happened.func is run_signals.on_end_signal:  # as long as no other end was reported
                happened()
            return
        try:
            state.step(loop.clock(), loop.awake(), happened)
        finally:
            self._alarm.set(state.due)

    def on_event(self, event: FleetEvent) -> None:
        """Handle an event of the fleet; output of a worker needs no step of the state.

        Raises:
            BadFrame: a node has sent an unexpected frame.
        """
        if type(event) is NodeSent and event.kind in {frames.OUTPUT, frames.INPUT_ACK}:
            node = self.state.node_of(event.node)
            (self._on_output if event.kind == frames.OUTPUT else self._on_took)(node, event.body)
        else:
            self.handle(fleet_events.on_event, event)

    def _on_output(self, node: RunNode, body: bytes) -> None:
        self.output.on_output(node, body)
        if self.state.restarts.starting:
            self.handle(node_frames.on_output, node, frames.unpack_output(body)[0])

    def _on_took(self, node: RunNode, body: bytes) -> None:
        """Count the standard input that rank 0 has read."""
        size = frames.unpack_credit(body)
        stdin = self.effects.stdin
        if stdin is None or node is not self.state.staged.first:
            raise frames.BadFrame("input read, but none sent")
        stdin.took(size)

    # -- its course -----------------------------------------------------------------------------

    def start(self) -> None:
        """Send JOB to every connected node, and to each other node when it connects."""
        self.fleet.lend([node.connection for node in self.state.nodes], self.on_event)
        self.handle(run_start.send_jobs)
        if GateStage.START in self.gates.stages:
            # Import them after JOB was sent, while the nodes prepare themselves.
            self.loop.call_later(0.0, lambda: self.gates.open(GateStage.START))

    def wait(self) -> None:
        """Wait until the run is over, then give its nodes back to the fleet."""
        try:
            if self.state.phase is not RunPhase.OVER:
                self.loop.run()
        finally:
            self.release_nodes()

    def release_nodes(self) -> None:
        """Give the nodes back to the fleet, and stop reading standard input."""
        self.fleet.take_back(self.on_event)
        if self.effects.stdin is not None:
            self.effects.stdin.close()

    def release(self, nodes: Sequence[RunNode]) -> None:
        """Make these nodes release the ports and log files of a run that was never started."""
        if not self.state.started:
            self.effects.send(nodes, messages.pack(frames.STOP, messages.Stop(signal.SIGTERM, 0.0)))

    # -- who sees it ----------------------------------------------------------------------------

    def view(self) -> RunView:
        """Return the current state of the run, to be read only."""
        state = self.state
        return RunView(
            state.spec,
            state.plan,
            state.phase,
            state.started,
            state.abandoned,
            state.error,
            state.nodes,
            state.record,
            state.workers,
            state.restarts,
        )

    def observe(self, observer: Observer) -> None:
        """Call `observer` from the loop with every event of this run (`events`) from now on."""
        if self.state.observers is None:
            from .events import Observers

            self.state.observers = self.output.observers = Observers(self.state.do)
        self.state.observers.add(observer)

    def tell(self, event: RunEvent) -> None:
        """Pass an event to the observers."""
        if self.state.observers:
            self.state.observers.tell(event)

    def tell_end(self, ending: Ending) -> None:
        """Tell the observers how the job has ended."""
        if self.state.observers:
            self.state.observers.ended(ending)

    def log(self, text: str, level: str = "info") -> None:
        """Print a message for the user."""
        self._console.log(text, level)

    # -- its nodes ------------------------------------------------------------------------------

    def send_job(self, node: RunNode) -> None:
        """Send JOB to a node that has passed the gates before it."""
        task, node.asked = self._task(node.node), self.loop.clock()
        node.task = node.change_job(task) if node.change_job else task
        node.connection.send_job(messages.pack(frames.JOB, node.task))
        if self.state.started and self._greeting is not None:
            node.send(self._greeting())

    def _find(self, host: Host) -> tuple[NodeConnection, Node]:
        """Return the connection of an added host, and its place in the fleet."""
        node = Node(len(self.fleet.nodes), host, None, host.slots)
        connection = self.fleet.find(node, self.spec.backend.lane_entry) or self.fleet.add(node)
        self.fleet.lend_more(connection, self.on_event)
        return connection, node
