"""The state of a run.

An event is a call that `RunState.step` gets together with the time: of a method here, or of a
function that takes the state. After the step, the state calls `RunActions`, in order. Nothing here
waits, reads a clock or sends.
"""

from __future__ import annotations

import signal

from ...backends import BACKENDS
from ...common.event_queue import Outbox, Remaining
from ...common.loop import Timers
from ...control import frames, messages
from . import node_frames, run_start
from .record import JobRecord
from .run_node import RunNode
from .run_signals import StopRequests
from .run_view import RunPhase
from .running_ranks import Workers, may_run_on
from .start_message import StagedStart, start_message, window, world_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Container, Mapping, Sequence
    from typing import Protocol

    from ...common.errors import DsrunError
    from ...common.loop import Timer
    from ...features.shards.runner_requests import ShardRequests
    from ...specs.host import Host
    from ...specs.job import JobSpec
    from ...specs.plan import Node, Plan
    from ..fleet.node_connection import NodeConnection
    from .events import Observers
    from .gate import Done, GateStage
    from .restart_policy import RestartPolicy
    from .startup import AllReady

    class RunActions(Protocol):
        """The actions that a run may request, on its own nodes."""

        def ask(self, node: RunNode) -> None:
            """Send this node its JOB, which it answers with HELLO."""
            ...

        def send(self, nodes: Sequence[RunNode], frame: bytes) -> None:
            """Send these nodes a frame."""
            ...

        def close_line(self, node: RunNode, reason: str) -> None:
            """Close the connection to a node, whose launcher then ends its workers."""
            ...

        def expect_beats(self, node: RunNode) -> None:
            """Expect heartbeats of this node from now on."""
            ...

        def send_beats(self) -> None:
            """Send heartbeats to all nodes from now on, and check that theirs arrive."""
            ...

        def reach(self, node: RunNode) -> None:
            """Start the node launcher of a lost or an added node."""
            ...

        def unreached(self, node: RunNode) -> None:
            """Report that a node could not be reached again; the run keeps trying."""
            ...

        def log(self, text: str, level: str = "info") -> None:
            """Print a message for the user."""
            ...

        def status(self, text: str) -> None:
            """Show this as the status line, which replaces itself."""
            ...

        @property
        def stages(self) -> Container[GateStage]:
            """The stages that have gates."""
            ...

        def check(self, stages: Sequence[GateStage], nodes: Sequence[RunNode], then: Done) -> None:
            """Check nodes by the gates of some stages; called within a step, as is `then`."""
            ...

        def on_gate_frame(self, node: RunNode, kind: int, body: bytes) -> None:
            """Pass a frame to the gate that handles its kind; called within a step."""
            ...

        def close_services(self) -> None:
            """Close the gates, and stop the search for other hosts."""
            ...

        def forward_input(self, node: RunNode) -> None:
            """Forward standard input to this node."""
            ...

        def label(self, plan: Plan) -> None:
            """Label the output of the ranks of this plan from now on."""
            ...

        def label_node(self, node: Node) -> None:
            """Label the output of the ranks of this node, and keep all other labels."""
            ...

        def ready(self, ready: AllReady) -> None:
            """Start the workers, now or later: all nodes are ready."""
            ...

        def ask_allocation(self) -> None:
            """Ask Slurm whether the job's allocation has ended; `on_allocation` follows."""
            ...

        def suspend(self) -> None:
            """Suspend this process, for Ctrl-Z."""
            ...

        def show_stacks(self, nodes: Sequence[RunNode], workers: Workers) -> None:
            """Print the stacks of the running ranks."""
            ...

        def finish(self) -> None:
            """Tell the owner that the run is over, after closing the services of the run."""
            ...


LAST_MARGIN = 35.0
"""Seconds beyond the grace for a node to report that no process is left; it tries for 30 s."""

ALLOCATION_WAIT = 5.0
"""Seconds for Slurm to answer whether the allocation has ended; usually milliseconds suffice."""

CAUSE_WAIT = 0.5
"""Seconds for a backend to report why a connection ended; the guard is faster than that."""


class RunState:
    """A program on some nodes, from JOB to its end.

    Attributes:
        nodes: the nodes in rank order, followed by those that were added later.
        plan: the ranks of each node, for an elastic job in the current round.
        master: MASTER_ADDR of the workers, "" before the start.
        started: whether the workers were started.
        abandoned: whether a third interrupt has ended the run without waiting for its nodes.
        error: why the run was refused; None if it was not.
        record: the history of the job.
        shards: the shard queues of the workers; None without --shard_queue.
        observers: pass events to the observers; None without observers.
        window: bytes of output that a node may send before it needs more credit.
        now: the time of the current step, on the loop's clock.
        timers: timers on a clock that does not count the time in which this process was stopped.
        act: the actions of the run; called only through `do`.
        do: postpones an action to the end of the step.
        decide: postpones a change of the state to the end of the step, before the actions.
        interrupts: counts the signals that were meant to end the run.
    """

    phase, master, now = RunPhase.STARTING, "", 0.0
    started = abandoned = False
    observers: Observers | None = None
    error: DsrunError | None = None
    _last_wait: Timer | None = None
    _told: frozenset[str] = frozenset()

    def __init__(
        self,
        spec: JobSpec,
        nodes: list[RunNode],
        restarts: Callable[[RunState], RestartPolicy],
        act: RunActions,
        find: Callable[[Host], tuple[NodeConnection, Node]],
        now: float,
        awake: float,
    ) -> None:
        """Start with nodes that have not been sent JOB.

        Args:
            spec: the job.
            nodes: the nodes in rank order.
            restarts: makes the restart policy.
            act: carries out the actions.
            find: returns the connection of an added host, and its place in the fleet.
            now: seconds on the loop's clock.
            awake: seconds on that clock without the time in which this process was stopped.
        """
        self.spec, self.plan, self.nodes, self.now = spec, spec.plan, nodes, now
        self.grace, self.lease = spec.supervision.grace, spec.supervision.heartbeat_timeout
        self._awake = awake
        self.timers = Timers(lambda: self._awake)
        self.act, self._outbox, self.interrupts = act, Outbox(), StopRequests()
        self.do, self.decide = self._outbox.do, self._outbox.decide
        self.record = JobRecord(spec.job_id, now)
        self.workers = Workers(self.clock, self.timers, self.warn)
        self.shards = _shards(self) if spec.workers.shard_queue else None
        self.window = window(len(nodes))
        self.staged = StagedStart(nodes[0], self.send)
        self._present = Remaining(lambda: self.nodes, lambda node: node.over)
        self._find = find
        self.restarts = restarts(self)
        self.startup = run_start.startup(self)
        if spec.plan.rendezvous is not None:
            self.workers.place = " here"
        self._of = {node.connection: node for node in nodes}
        self.on_frame = node_frames.handler(self)

    def step(self, now: float, awake: float, happened: Callable[[], object]) -> None:
        """Handle an event, then carry out the resulting actions.

        Actions requested before an exception are still carried out. The end of the run comes last,
        because its owner may then use the nodes for another run.

        Args:
            now: seconds on the loop's clock.
            awake: seconds on that clock without the time in which this process was stopped.
            happened: a call that handles the event.

        Raises:
            BadFrame: a node has sent an unexpected frame.
        """
        self.now, self._awake = now, awake
        try:
            happened()
        finally:
            self._outbox.empty()
            if self.phase is RunPhase.OVER:
                self.act.finish()

    @property
    def due(self) -> float | None:
        """The time of the next timer, on the clock of `awake`; None without timers."""
        return self.timers.due

    def clock(self) -> float:
        """Return the time of the current step."""
        return self.now

    def log(self, text: str, level: str = "info") -> None:
        """Print a message for the user."""
        self.do(self.act.log, text, level)

    def warn(self, text: str) -> None:
        """Print a warning for the user."""
        self.do(self.act.log, text, "warning")

    def send(self, nodes: Sequence[RunNode], frame: bytes) -> None:
        """Send these nodes a frame."""
        self.do(self.act.send, nodes, frame)

    def check(self, stages: Sequence[GateStage], nodes: Sequence[RunNode], then: Done) -> None:
        """Check nodes by the gates of some stages, then call `then`; now if there are no gates."""
        if any(stage in self.act.stages for stage in stages):
            self.act.check(stages, nodes, then)
        else:
            then({}, ())

    def check_node(
        self, stages: Sequence[GateStage], node: RunNode, then: Callable[[str], None]
    ) -> None:
        """Check a node by the gates of some stages.

        `then` is called with the reason to refuse the node, or ""; but not if the run has
        ended since, or another JOB was sent to the node.
        """
        node.busy, asked = True, node.asked

        def on_checked(refused: Mapping[RunNode, str], _lines: Sequence[str]) -> None:
            if node.asked == asked and not self.ending:
                node.busy = False
                then(refused.get(node, ""))

        self.check(stages, (node,), on_checked)

    def node_of(self, connection: NodeConnection) -> RunNode:
        """Return the node that has this connection."""
        return self._of[connection]

    def add(self, host: Host) -> RunNode:
        """Add a node for a host that no run uses, or that is new to the fleet."""
        connection, place = self._find(host)
        self._of[connection] = added = RunNode(connection, place, len(self.nodes))
        self.nodes.append(added)
        return added

    @property
    def stopping(self) -> bool:
        """True if the run is being stopped, or has ended on all nodes."""
        return self.phase >= RunPhase.STOPPING

    @property
    def ending(self) -> bool:
        """True if the run has ended on all nodes."""
        return self.phase >= RunPhase.ENDING

    # -- rounds -----------------------------------------------------------------------------

    def label(self, plan: Plan) -> None:
        """Use this plan from now on, for the labels of ranks and for DSRUN_WORLD_INFO."""
        self.plan, self._world = plan, world_of(plan)
        self.do(self.act.label, plan)

    def clear_round(self) -> None:
        """Forget the ends of the workers of earlier rounds."""
        self.record.clear_exits()
        self.workers.start_round()

    def start_message(self, node: Node, master: str, port: int) -> messages.Start:
        """Return the START message of a node, given MASTER_ADDR and MASTER_PORT."""
        return start_message(self.plan, node, master, port, self.window, self._world)

    # -- stopping ---------------------------------------------------------------------------

    def fail(self, error: DsrunError) -> None:
        """End the run with this error instead of a report."""
        self.error = error
        self.finish()

    def record_given_up(self, reason: str) -> None:
        """Record that the run ends for this reason: there are too few nodes."""
        self.record.clear_exits()  # their failures no longer matter: nothing has run since
        self.record.gave_up(reason, self.now)
        self._record_together()

    def stop(self, number: int, grace: float | None = None) -> None:
        """Stop every node; a second call passes on its signal, and can shorten the grace."""
        grace = self.grace if grace is None else grace
        self._start_nothing_more()
        self.send(self.nodes, messages.pack(frames.STOP, messages.Stop(number, grace)))
        self.staged.cancel()
        self.workers.close()
        if self.phase is RunPhase.RUNNING:
            self.phase = RunPhase.STOPPING
            self._last_wait = self.timers.call_later(grace + LAST_MARGIN, self._stop_waiting)
        self.finish_if_over()

    def _start_nothing_more(self) -> None:
        self.restarts.close()
        self.do(self.act.close_services)

    def _stop_waiting(self) -> None:
        for node in self.nodes:
            if not node.over and self.phase < RunPhase.ENDING:
                self.lose(node, "it did not report the end of its workers")

    def lose(
        self,
        node: RunNode,
        reason: str,
        *,
        over: bool = True,
        explained: bool = True,
        own: bool = False,
    ) -> None:
        """Go on without a node that is gone, or stop the run if it needs the node."""
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
            self._tell_loss(node, reason, left=running and explained)
            self.staged.on_answer(node)
            self.restarts.on_loss(node)
            return
        self.record.lost(node.name, reason, self.now, explained=explained, own=own)
        self._record_together()
        self.stop(signal.SIGTERM)

    def _tell_loss(self, node: RunNode, reason: str, *, left: bool) -> None:
        """Report a lost node that the run survives; one line for all that fell silent together."""
        together = node.connection.silence.together
        if not together:
            self.warn(f"lost {node.name}: {reason}; going on without it")
            if left:
                self.warn(node.left)
        elif together is not self._told:
            self._told = together
            others = (n for n in self.nodes if n.connection.silence.together is together)
            names = ", ".join(one.name for one in others)
            self.warn(f"lost {names}: {reason}; the nodes end their workers themselves")

    def _record_together(self) -> None:
        """Record the loss of all nodes that fell silent together: it ends the run."""
        for node in self.nodes:
            if node.lost and node.connection.silence.together:
                self.record.lost(node.name, node.lost, self.now)

    def _note_unseen(self, node: RunNode) -> bool:
        """Note the processes that may still run on a lost node; return whether workers ran."""
        workers = self.workers.lost(node)
        if node.begun and node.hello:
            seconds = self.lease + self.grace
            node.left = may_run_on(node.name, node.hello.pids, workers, seconds)
        return bool(node.left and workers)

    # -- the end ----------------------------------------------------------------------------

    def finish_if_over(self) -> None:
        """End the run if no node has anything more to report."""
        if RunPhase.RUNNING <= self.phase < RunPhase.ENDING and not self._present:
            self.finish()

    def finish(self) -> None:
        """End the run, after giving backends time to report why connections ended."""
        if self.phase >= RunPhase.ENDING:
            return
        self.phase = RunPhase.ENDING
        self.record.ended = self.now
        self.startup.close()
        self._start_nothing_more()
        self.workers.close()
        self.timers.call_later(CAUSE_WAIT, self._stop_explaining)
        self._ask_allocation()
        self.finish_if_explained()

    def _ask_allocation(self) -> None:
        """Ask Slurm whether it has ended the job, if that would explain how the run has ended.

        After Slurm's signal, workers may exit with 0 before the runner receives the signal.
        """
        allocates = BACKENDS[self.spec.plan.launcher].allocates
        if self.started and allocates and self.record.may_be_cancelled:
            self.record.asks_allocation = True
            self.do(self.act.ask_allocation)
            self.timers.call_later(ALLOCATION_WAIT, self._finish_now)

    def _stop_explaining(self) -> None:
        self.record.stop_explaining()
        self.finish_if_explained()

    def abandon(self) -> None:
        """End the run without waiting for its nodes."""
        self.record.ended = self.now
        self.abandoned = True
        self._finish_now()

    def finish_if_explained(self) -> None:
        """End the run now if no explanation is still expected."""
        if not self.record.awaits_causes:
            self._finish_now()

    def _finish_now(self) -> None:
        if self.phase is RunPhase.OVER:
            return
        self.phase = RunPhase.OVER
        if self._last_wait is not None:
            self._last_wait.cancel()


def _shards(run: RunState) -> ShardRequests:
    from ...features.shards.runner_requests import ShardRequests

    return ShardRequests(run.send, run.warn)
