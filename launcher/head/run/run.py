"""One program on the nodes of a fleet, started and stopped on all of them together."""

from __future__ import annotations

import signal
from functools import partial

from ...common.event_queue import EventQueue
from ...common.loop import DueTimer
from ...common.values import NamedTuple
from ...control import frames, messages
from ...specs.plan import Node
from ..fleet.events import NodeSent
from ..output.filter import OutputFilter
from . import fleet_events, node_frames, run_signals, run_start
from .output import RunOutput
from .restart_policy import NoRestarts
from .run_effects import RunEffects
from .run_node import RunNode, members
from .run_state import RunState
from .run_view import RunPhase, RunView
from .start_message import window
from .tasks import tasks

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any, Concatenate, ParamSpec, Protocol, TypeAlias

    from ...control.messages import NodeJob
    from ...specs.host import Host
    from ...specs.job import JobSpec
    from ..fleet.events import FleetEvent
    from ..fleet.fleet import NodeFleet
    from ..fleet.node_connection import NodeConnection
    from ..output.console import Console
    from ..report.ending import Ending
    from .events import Observer
    from .restart_policy import RestartPolicy
    from .startup import AllReady

    P = ParamSpec("P")
    Happening: TypeAlias = Callable[Concatenate[RunState, P], object]

    class Handle(Protocol):
        """Tells a run what has happened, as `Run.handle`."""

        def __call__(self, happened: Happening[P], /, *args: P.args, **kwargs: P.kwargs) -> None:
            """Tell it."""
            ...

    Restarts = Callable[[RunState], RestartPolicy]
    SendJob = Callable[[RunNode, Callable[[NodeJob], NodeJob] | None], None]
    Asks = Callable[[SendJob, Handle, Callable[[], RunView]], Callable[[RunNode], None]]


class RunOverrides(NamedTuple):
    """What whoever has a run does in place of the usual; None for that.

    Attributes:
        on_ready: is called once all nodes are ready, and has the run started with `Run.handle`.
        on_over: is called when the run is over; usually the loop is stopped.
        greeting: returns a frame for each node that comes once the run has started.
        on_unreached: is called with a node that could not be reached again, and is tried again.
    """

    on_ready: Callable[[AllReady], None] | None = None
    on_over: Callable[[], None] | None = None
    greeting: Callable[[], bytes] | None = None
    on_unreached: Callable[[RunNode], None] | None = None


class Run:
    """A program on some nodes of a fleet: what happens is given to its state, what follows is done.

    All that happens is put in one queue. So nothing that is done, and of which something follows,
    interferes with what is under way.

    Attributes:
        state: what it does, which changes only in `handle`.
        spec: its job.
        fleet: the fleet whose nodes it uses.
        loop: that of the fleet.
        output: what its workers write.
        debugging: ranks that a debugger is attached to, or that wait for one.
        effects: carries out what follows.
    """

    def __init__(
        self,
        spec: JobSpec,
        fleet: NodeFleet,
        console: Console,
        restarts: Restarts = NoRestarts,
        asks: Asks | None = None,
        owner: RunOverrides | None = None,
    ) -> None:
        """Prepare a run of the fleet's nodes that the plan has.

        `asks` is given `send_job`, `handle` and `view`. It returns what sends a node its JOB as
        soon as it may have that; None for at once.
        """
        self.spec, self.fleet, self.loop = spec, fleet, fleet.loop
        self._console, self._greeting = console, owner.greeting if owner else None
        self._task = tasks(spec)
        nodes = members(spec.plan, fleet)
        size = window(len(nodes))
        self.output = RunOutput(console, OutputFilter(spec), size)
        act = RunEffects(spec, fleet, console, self.output, owner or RunOverrides(), self.handle)
        self._queue, self.effects = EventQueue(), act
        times = self.loop.clock(), self.loop.awake()
        self.state = RunState(spec, nodes, restarts, act, self._find, *times)
        self.debugging: set[int] = set()
        expire = partial(self.handle, fleet_events.time_passed)
        self._alarm = DueTimer(self.loop, self.loop.awake, expire)
        act.ask = asks(self.send_job, self.handle, self.view) if asks else self.send_job
        if (observer := self.state.restarts.observer) is not None:
            self.observe(observer)

    # -- what happens, and what follows -------------------------------------------------------

    def handle(self, happened: Happening[P], /, *args: P.args, **kwargs: P.kwargs) -> None:
        """Tell the state what has happened, after what is under way.

        Nothing is handled once the run is over: its nodes may be those of another one. A signal
        that ends runs is recorded all the same.

        Args:
            happened: a method of `RunState`, or another function of one.
            args: its arguments.
            kwargs: its arguments by name.

        Raises:
            BadFrame: a node has sent a frame that is not expected.
        """
        self._queue.put(self._step, partial(happened, self.state, *args, **kwargs))

    def _step(self, happened: partial[object]) -> None:
        state, loop = self.state, self.loop
        if state.phase is RunPhase.OVER:
            if happened.func is run_signals.on_end_signal:  # until somebody is told of another end
                happened()
            return
        try:
            state.step(loop.clock(), loop.awake(), happened)
        finally:
            self._alarm.set(state.due)

    def on_event(self, event: FleetEvent) -> None:
        """Handle an event of the fleet; what a worker writes needs no step.

        Raises:
            BadFrame: a node has sent a frame that is not expected.
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
        """Count standard input that rank 0 has read."""
        size = frames.unpack_count(body)
        stdin = self.effects.stdin
        if stdin is None or node is not self.state.staged.first:
            raise frames.BadFrame("input read, but none sent")
        stdin.took(size)

    # -- its course -----------------------------------------------------------------------------

    def begin(self) -> None:
        """Send JOB to every connected node; the others get it when they connect."""
        self.fleet.lend([node.connection for node in self.state.nodes], self.on_event)
        self.handle(run_start.begin)
        if self.spec.checks.quick:
            # Imported after JOB was sent, while the nodes prepare themselves.
            self.loop.call_later(0.0, self._load_check)

    def _load_check(self) -> None:
        self.state.load_check()

    def wait(self) -> None:
        """Wait until the run is over, then give its nodes back to the fleet."""
        try:
            if self.state.phase is not RunPhase.OVER:
                self.loop.run()
        finally:
            self.leave()

    def leave(self) -> None:
        """Give its nodes back to the fleet, and read no more standard input."""
        self.fleet.take_back(self.on_event)
        if self.effects.stdin is not None:
            self.effects.stdin.close()

    def release(self, nodes: Sequence[RunNode]) -> None:
        """Make these nodes release ports and log files of a run that was not started."""
        if not self.state.started:
            self.effects.send(nodes, messages.pack(frames.STOP, messages.Stop(signal.SIGTERM, 0.0)))

    # -- who sees it ----------------------------------------------------------------------------

    def view(self) -> RunView:
        """Return how it is now."""
        state = self.state
        size = state.restarts.world_size(state.plan.world_size or 0)
        return RunView(
            state.spec,
            state.plan,
            state.phase,
            state.started,
            state.abandoned,
            state.error,
            size,
            state.nodes,
            state.record,
            state.workers,
        )

    def observe(self, observer: Observer) -> None:
        """Call `observer` from the loop with every event of this run (`events`) from now on."""
        if self.state.observers is None:
            from .events import Observers

            self.state.observers = self.output.observers = Observers(self.state.do)
        self.state.observers.add(observer)

    def tell(self, event: Any) -> None:
        """Tell observers of an event."""
        if self.state.observers:
            self.state.observers.tell(event)

    def tell_end(self, ending: Ending) -> None:
        """Tell observers how its job has ended."""
        if self.state.observers:
            self.state.observers.ended(ending)

    def log(self, text: str, level: str = "info") -> None:
        """Print a message for the user."""
        self._console.log(text, level)

    # -- its nodes ------------------------------------------------------------------------------

    def send_job(self, node: RunNode, change: Callable[[NodeJob], NodeJob] | None = None) -> None:
        """Send JOB to a node; `change` returns the task as it is there."""
        task, node.asked = self._task(node.node), self.loop.clock()
        node.task = change(task) if change else task
        node.connection.send_job(messages.pack(frames.JOB, node.task))
        if self.state.started and self._greeting is not None:
            node.send(self._greeting())

    def _find(self, host: Host) -> tuple[NodeConnection, Node]:
        """Return a connection of a host that is added, and its place in the fleet."""
        node = Node(len(self.fleet.nodes), host, None, host.slots)
        connection = self.fleet.find(node) or self.fleet.add(node)
        self.fleet.lend_more(connection, self.on_event)
        return connection, node
