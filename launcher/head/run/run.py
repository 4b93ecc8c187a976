"""One program on the nodes of a fleet, started and stopped on all of them together."""

from __future__ import annotations

import signal

from ...control import frames, messages
from ...specs.plan import Node
from ..output.filter import OutputFilter
from .fleet_events import FleetEvents
from .output import RunOutput
from .phase import Phase
from .record import JobRecord
from .restart_policy import NoRestarts
from .run_node import RunNode, members
from .run_signals import RunSignals
from .run_start import RunStart
from .start_message import StagedStart, start_message, window, world_of
from .tasks import tasks
from .workers import Workers, may_run_on

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ...common.errors import DsrunError
    from ...common.loop import Timer
    from ...control.messages import NodeJob
    from ...specs.host import Host
    from ...specs.job import JobSpec
    from ...specs.plan import Plan
    from ..fleet.fleet import Fleet
    from ..fleet.node_connection import NodeConnection
    from ..output.console import Console
    from ..shards.requests import ShardRequests
    from .events import Observer, Observers
    from .quick_check import QuickCheck
    from .restart_policy import RestartPolicy
    from .stdin import Stdin

LAST_MARGIN = 35.0
"""Seconds beyond the grace for a node to report that nothing is left; it tries for 30 itself."""

CAUSE_WAIT = 0.5
"""Seconds for a backend to report why a connection has ended; the guard is done before that."""


class Run:
    """A program on some nodes of a fleet, from JOB to its report.

    Attributes:
        fleet: the fleet whose nodes it uses.
        nodes: its nodes in rank order, followed by those that were added later.
        plan: which node has which ranks, for an elastic job in the current round.
        phase: its current phase.
        master: MASTER_ADDR of the workers, "" before the start.
        record: what has happened so far.
        workers: the running workers.
        shards: the shard queues of its workers; None without --shard_queue.
        debugging: ranks that a debugger is attached to, or that wait for one.
        abandoned: whether a third interrupt has ended it without waiting for its nodes.
        health: runs the health command; None if there is none.
        observers: of its events; None if there are none (see `observe`).
        stdin: forwards standard input to rank 0, if that was requested and the run has started.
        input_fd: the descriptor of that standard input.
        ask: called with every node that is connected, for the run or a round; sends it JOB.
        on_ready: called once all nodes are ready, with the settled plan and the address and port of
            the master.
    """

    phase, master, input_fd = Phase.STARTING, "", 0
    started = abandoned = False
    observers: Observers | None = None
    stdin: Stdin | None = None
    error: DsrunError | None = None
    _last_wait: Timer | None = None

    def __init__(
        self,
        spec: JobSpec,
        fleet: Fleet,
        console: Console,
        restarts: Callable[[Run], RestartPolicy] = lambda _run: NoRestarts(),
        asks: Callable[[Run], Callable[[RunNode], None]] | None = None,
        on_ready: Callable[[Plan, str, int], None] | None = None,
        on_over: Callable[[], None] | None = None,
    ) -> None:
        """Prepare a run of the fleet's nodes that the plan has.

        `asks` returns what sends JOB, by `send_job`, once a node may have it; `on_ready` is called
        in place of the start, and `on_over` instead of stopping the loop.
        """
        self.spec, self.plan, self.fleet = spec, spec.plan, fleet
        self.grace, self.lease = spec.supervision.grace, spec.supervision.heartbeat_timeout
        self.nodes = members(spec.plan, fleet)
        self._of = {node.connection: node for node in self.nodes}
        self._task, self._console, self.loop = tasks(spec), console, fleet.loop
        self.record = JobRecord(spec.job_id, self.loop.clock())
        self.workers = Workers(self.loop, self.warn)
        self.debugging: set[int] = set()
        self.shards = _shards(console) if spec.workers.shard_queue else None
        self._window = window(len(self.nodes))
        self.output = RunOutput(console, OutputFilter(spec), self._window)
        self.staged = StagedStart(self.nodes[0])
        self._starting = starting = RunStart(self)
        self.health = starting.health()
        self.restarts = restarts(self)
        self.startup = starting.startup(console)
        self._events = FleetEvents(self).on_event
        self.signals = RunSignals(self)
        self.on_ready = on_ready or starting.ready
        self._on_over = on_over or self.loop.stop
        self.ask = asks(self) if asks else self.send_job

    def begin(self) -> None:
        """Send JOB to every connected node; the others get it when they connect."""
        self.startup.begin()
        self.fleet.lend([node.connection for node in self.nodes], self._events)
        for node in self.nodes:
            if node.connection.connected:
                self.ask(node)
            elif node.connection.lost:
                self.startup.fail(node, f"lost: {node.connection.lost}")

    def wait(self) -> None:
        """Wait until the run is over, then give its nodes back to the fleet."""
        try:
            if self.phase is not Phase.OVER:
                self.loop.run()
        finally:
            self.leave()

    def leave(self) -> None:
        """Give its nodes back to the fleet, and read no more standard input."""
        self.fleet.take_back(self._events)
        if self.stdin is not None:
            self.stdin.close()

    def release(self, nodes: Sequence[RunNode]) -> None:
        """Make these nodes release ports and log files of a run that was not started."""
        if not self.started:
            self.send(nodes, messages.pack(frames.STOP, messages.Stop(signal.SIGTERM, 0.0)))

    def log(self, text: str, level: str = "info") -> None:
        """Print a message for the user."""
        self._console.log(text, level)

    def warn(self, text: str) -> None:
        """Print a warning for the user."""
        self._console.log(text, "warning")

    def observe(self, observer: Observer) -> None:
        """Call `observer` from the loop with every event of this run (`events`) from now on."""
        if self.observers is None:
            from .events import Observers

            self.observers = self.output.observers = Observers()
        self.observers.add(observer)

    @property
    def quick_check(self) -> QuickCheck | None:
        """What compares its nodes before their workers start; None if that is left out."""
        return self._starting.quick_check

    def node_of(self, connection: NodeConnection) -> RunNode:
        """Return the node of this run that has this connection."""
        return self._of[connection]

    @property
    def stopping(self) -> bool:
        """Whether it is being stopped, or has ended on all nodes."""
        return self.phase >= Phase.STOPPING

    @property
    def ending(self) -> bool:
        """Whether it has ended on all nodes."""
        return self.phase >= Phase.ENDING

    def send_job(self, node: RunNode, change: Callable[[NodeJob], NodeJob] | None = None) -> None:
        """Send JOB to a node; `change` returns the task as it is there."""
        task, node.asked = self._task(node.node), self.loop.clock()
        node.task = change(task) if change else task
        node.connection.send_job(messages.pack(frames.JOB, node.task))

    # -- the start --------------------------------------------------------------------------

    def call_off(self, reason: str) -> None:
        """Give up the start for this reason; if the program is running already, only warn."""
        if self.phase is Phase.STARTING:
            self.startup.give_up([reason])
        else:
            self.warn(reason)

    def fail_start(self, node: RunNode, cause: str) -> None:
        """Record why a node cannot take part."""
        node.ask_again()
        self.startup.fail(node, cause)

    def refuse(self, error: DsrunError) -> None:
        """End the run with this error instead of a report."""
        self.error = error
        self.end()

    # -- rounds -----------------------------------------------------------------------------

    def label(self, plan: Plan) -> None:
        """Use this plan from now on: its labels of ranks and its DSRUN_WORLD_INFO."""
        self.plan, self._world = plan, world_of(plan)
        self.output.label(plan)

    def begin_round(self) -> None:
        """Forget how workers of earlier rounds have ended."""
        self.record.forget_exits()
        self.workers.begin_again()

    def start_message(self, node: Node, master: str, port: int) -> messages.Start:
        """Return the START message of a node, given MASTER_ADDR and MASTER_PORT."""
        return start_message(self.plan, node, master, port, self._window, self._world)

    def add(self, host: Host) -> RunNode:
        """Add a node, which no run uses or the fleet does not know yet, and return it."""
        node = Node(len(self.fleet.nodes), host, None, host.slots)
        connection = self.fleet.find(node) or self.fleet.add(node)
        self.fleet.lend_more(connection, self._events)
        self._of[connection] = added = RunNode(connection, node, len(self.nodes))
        self.nodes.append(added)
        return added

    # -- frames of nodes --------------------------------------------------------------------

    def check_started(self) -> None:
        """Check that the run has started.

        Raises:
            BadFrame: it has not.
        """
        if not self.started:
            raise frames.BadFrame("the job has not started")

    # -- stopping ---------------------------------------------------------------------------

    def stop(self, number: int, grace: float | None = None) -> None:
        """Stop every node; a second call passes on its signal, and can shorten the grace."""
        grace = self.grace if grace is None else grace
        self._begin_nothing_more()
        self.send(self.nodes, messages.pack(frames.STOP, messages.Stop(number, grace)))
        self.staged.cancel()
        self.workers.close()
        if self.phase is Phase.RUNNING:
            self.phase = Phase.STOPPING
            self._last_wait = self.loop.call_later(grace + LAST_MARGIN, self._give_up_waiting)
        self.end_when_over()

    def _begin_nothing_more(self) -> None:
        self.restarts.close()
        if self.health is not None:
            self.health.close()

    def send(self, nodes: Sequence[RunNode], frame: bytes) -> None:
        """Send a frame to these nodes."""
        for node in nodes:
            node.send(frame)

    def _give_up_waiting(self) -> None:
        for node in self.nodes:
            if not node.over and self.phase < Phase.ENDING:
                self.lose(node, "it did not report the end of its workers")

    def lose(
        self, node: RunNode, reason: str, *, over: bool = True, explained: bool = True
    ) -> None:
        """Go on without a node that is gone, or stop the run if it cannot."""
        if node.over:
            return
        survives = self.started and not self.ending and self.restarts.survives(node)
        running = self._note_unseen(node)
        if over or survives:
            node.lose(reason)
        if self.shards:
            self.shards.node_lost(node)
        if self.observers:
            self.observers.lost(node, reason, survived=survives)
        if survives:
            self.warn(f"lost {node.name}: {reason}; going on without it")
            if running and explained:
                self.warn(node.left)
            self.staged.on_answer(node)
            self.restarts.on_loss(node)
            return
        self.record.lost(node.name, reason, self.loop.clock(), explained=explained)
        self.stop(signal.SIGTERM)

    def _note_unseen(self, node: RunNode) -> bool:
        """Note what may still be running on a lost node; return whether workers were."""
        workers = self.workers.lost(node)
        if node.begun and node.hello:
            seconds = self.lease + self.grace
            node.left = may_run_on(node.name, node.hello.pids, workers, seconds)
        return bool(node.left and workers)

    # -- the end ----------------------------------------------------------------------------

    def end_when_over(self) -> None:
        """End if nothing more is expected of any node."""
        if Phase.RUNNING <= self.phase < Phase.ENDING and all(node.over for node in self.nodes):
            self.end()

    def end(self) -> None:
        """End the run, once backends have had time to report why connections have ended."""
        if self.phase >= Phase.ENDING:
            return
        self.phase = Phase.ENDING
        self.record.ended = self.loop.clock()
        self.startup.close()
        self._begin_nothing_more()
        self.workers.close()
        self.loop.call_later(CAUSE_WAIT, self._finish)
        self.end_if_explained()

    def abandon(self) -> None:
        """End the run without waiting for its nodes."""
        self.record.ended = self.loop.clock()
        self.abandoned = True
        self._finish()

    def end_if_explained(self) -> None:
        """End the run now if no backend has a cause to report."""
        if not self.record.awaits_causes:
            self._finish()

    def _finish(self) -> None:
        if self.phase is Phase.OVER:
            return
        self.phase = Phase.OVER
        if self._last_wait is not None:
            self._last_wait.cancel()
        self._on_over()


def _shards(console: Console) -> ShardRequests:
    from ..shards.requests import ShardRequests

    return ShardRequests(console)
