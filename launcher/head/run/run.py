"""One program on the nodes of a fleet, started and stopped on all of them together."""

from __future__ import annotations

import os
import signal
from functools import partial

from ...common.event_queue import EventQueue
from ...common.loop import DueTimer
from ...common.values import NamedTuple
from ...control import frames, messages
from ...specs.plan import Node
from ..fleet.events import NodeSent
from ..output.filter import OutputFilter
from . import decisions, effects
from .output import RunOutput
from .phase import RunPhase
from .restart_policy import NoRestarts
from .run_node import RunNode, members
from .run_state import RunState
from .run_view import RunView
from .tasks import tasks

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from ...control.messages import NodeJob
    from ...specs.host import Host
    from ...specs.job import JobSpec
    from ..fleet.fleet import NodeFleet
    from ..fleet.node_connection import NodeConnection
    from ..output.console import Console
    from ..report.ending import Ending
    from ..stacks.view import RankView
    from .events import Observer
    from .file_lists import FileLists
    from .health import Health
    from .restart_policy import Course, RestartPolicy
    from .stdin import Stdin

    Restarts = Callable[[Course], RestartPolicy]
    Handle = Callable[[object], None]
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

    on_ready: Callable[[effects.AllReady], None] | None = None
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
        input_fd: the descriptor of the standard input that rank 0 gets, if that was requested.
    """

    input_fd = 0
    _stdin: Stdin | None = None
    _health: Health | None = None
    _lists: FileLists | None = None

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
        self._console, self._owner = console, owner or RunOverrides()
        self._task = tasks(spec)
        nodes = members(spec.plan, fleet)
        times = self.loop.clock(), self.loop.awake()
        self.state = RunState(spec, nodes, restarts, self._find, *times)
        self.debugging: set[int] = set()
        self.output = RunOutput(console, OutputFilter(spec), self.state.window)
        self._queue = EventQueue()
        self._alarm = DueTimer(
            self.loop, self.loop.awake, partial(self.handle, decisions.TimePassed())
        )
        self._ask = asks(self.send_job, self.handle, self.view) if asks else self.send_job
        self._closers: list[Callable[[], object]] = []
        self._perform = self._table()
        if (observer := self.state.restarts.observer) is not None:
            self.observe(observer)

    def _table(self) -> dict[type, Callable[..., object]]:
        """Return what carries out each kind of effect."""
        fleet, output, console = self.fleet, self.output, self._console
        return {
            effects.Ask: lambda it: self._ask(it.node),
            effects.Send: lambda it: self._send(*it),
            effects.CloseLine: lambda it: it.node.connection.close(it.reason),
            effects.ExpectBeats: lambda it: fleet.expect_beats(it.node.connection),
            effects.SendBeats: lambda _it: fleet.watch(),
            effects.ReachNode: lambda it: fleet.reach(it.node.connection),
            effects.Unreached: lambda it: self._on_unreached(it.node),
            effects.Log: lambda it: console.log(*it),
            effects.Status: lambda it: console.status(it.text),
            effects.Tell: lambda it: self.tell(it.event),
            effects.ListFiles: self._list_files,
            effects.CheckHealth: lambda it: self._check_health(it.node),
            effects.CloseServices: lambda _it: self._close_services(),
            effects.ForwardInput: lambda it: self._forward_input(it.node),
            effects.Label: lambda it: output.label(it.plan),
            effects.LabelNode: lambda it: output.label_node(it.node),
            effects.AllReady: self._owner.on_ready
            or (lambda it: self.handle(decisions.StartRun(*it))),
            effects.AskAllocation: lambda _it: self._ask_allocation(),
            effects.Suspend: lambda _it: fleet.suspend(),
            effects.ShowStacks: lambda _it: self._show_stacks(),
            effects.Over: lambda _it: self._end(),
        }

    # -- what happens, and what follows -------------------------------------------------------

    def handle(self, event: object) -> None:
        """Handle an event of the fleet or a decision, after those that are under way.

        Nothing is handled once the run is over: its nodes may be those of another one. A signal
        that ends runs is recorded all the same.

        Raises:
            BadFrame: a node has sent a frame that is not expected.
        """
        self._queue.put(self._step, event)

    def _step(self, event: object) -> None:
        if self.state.phase is RunPhase.OVER:
            if type(event) is decisions.EndSignal:  # until somebody is told of another end
                self.state.record.stopped_late(*event)
            return
        state, loop = self.state, self.loop
        try:
            done = state.step(loop.clock(), loop.awake(), event)
        except Exception:  # of what a node has sent: what was decided before is done all the same
            self._carry_out(state.effects())
            raise
        self._carry_out(done)

    def _carry_out(self, done: Sequence[Any]) -> None:
        for effect in done:
            self._perform[type(effect)](effect)
        self._alarm.set(self.state.due)

    def on_event(self, event: Any) -> None:
        """Handle an event of the fleet; what a worker writes needs no step.

        Raises:
            BadFrame: a node has sent a frame that is not expected.
        """
        if type(event) is NodeSent and event.kind in {frames.OUTPUT, frames.INPUT_ACK}:
            node = self.state.node_of(event.node)
            (self._on_output if event.kind == frames.OUTPUT else self._on_took)(node, event.body)
        else:
            self.handle(event)

    def _on_output(self, node: RunNode, body: bytes) -> None:
        self.output.on_output(node, body)
        if self.state.restarts.starting:
            self.handle(decisions.Printed(node, frames.unpack_output(body)[0]))

    def _on_took(self, node: RunNode, body: bytes) -> None:
        """Count standard input that rank 0 has read."""
        size = frames.unpack_count(body)
        if self._stdin is None or node is not self.state.staged.first:
            raise frames.BadFrame("input read, but none sent")
        self._stdin.took(size)

    # -- its course -----------------------------------------------------------------------------

    def begin(self) -> None:
        """Send JOB to every connected node; the others get it when they connect."""
        self.fleet.lend([node.connection for node in self.state.nodes], self.on_event)
        self.handle(decisions.Begin())
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
        if self._stdin is not None:
            self._stdin.close()

    def release(self, nodes: Sequence[RunNode]) -> None:
        """Make these nodes release ports and log files of a run that was not started."""
        if not self.state.started:
            self._send(nodes, messages.pack(frames.STOP, messages.Stop(signal.SIGTERM, 0.0)))

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

    # -- effects --------------------------------------------------------------------------------

    @staticmethod
    def _send(nodes: Sequence[RunNode], frame: bytes) -> None:
        for node in nodes:
            node.send(frame)

    def send_job(self, node: RunNode, change: Callable[[NodeJob], NodeJob] | None = None) -> None:
        """Send JOB to a node; `change` returns the task as it is there."""
        task, node.asked = self._task(node.node), self.loop.clock()
        node.task = change(task) if change else task
        node.connection.send_job(messages.pack(frames.JOB, node.task))
        if self.state.started and self._owner.greeting is not None:
            node.send(self._owner.greeting())

    def _on_unreached(self, node: RunNode) -> None:
        if self._owner.on_unreached is not None:
            self._owner.on_unreached(node)

    def _find(self, host: Host) -> tuple[NodeConnection, Node]:
        """Return a connection of a host that is added, and its place in the fleet."""
        node = Node(len(self.fleet.nodes), host, None, host.slots)
        connection = self.fleet.find(node) or self.fleet.add(node)
        self.fleet.lend_more(connection, self.on_event)
        return connection, node

    def _list_files(self, asked: effects.ListFiles) -> None:
        if self._lists is None:
            from .file_lists import FileLists

            self._lists = FileLists(self.fleet, self.spec.job_id)

        def named(files: Mapping[str, list[str]]) -> None:
            self.handle(decisions.FilesListed(asked.nodes, files))

        self._lists.cancel()
        self._lists.ask(asked.nodes, asked.outliers, named)

    def _check_health(self, node: RunNode) -> None:
        if self._health is None:
            from .health import Health

            self._health = Health(self.spec, self.fleet)
            self.close_too(self._health.close)
        self._health.check(node, lambda why: self.handle(decisions.HealthChecked(node, why)))

    def close_too(self, close: Callable[[], object]) -> None:
        """Call `close` once the run is being stopped, or is over."""
        self._closers.append(close)

    def _close_services(self) -> None:
        while self._closers:
            self._closers.pop()()

    def _forward_input(self, node: RunNode) -> None:
        from .stdin import Stdin

        self._stdin = Stdin(self.loop, node.send, self.input_fd)

    def _ask_allocation(self) -> None:
        from .allocation_end import ask

        seen = decisions.AllocationSeen
        self.close_too(ask(self.loop, os.environ, lambda end: self.handle(seen(end))))

    def _end(self) -> None:
        self._close_services()
        (self._owner.on_over or self.loop.stop)()

    def _show_stacks(self) -> None:
        """Print where the running ranks are, as soon as their nodes have told."""
        from ..stacks.collect import collect
        from ..stacks.show import StackText

        def show(views: Mapping[int, RankView]) -> None:
            self.log(StackText(views).text(gap="\n"), "error")

        collect(self.fleet, self.state.nodes, self.state.workers, show)
