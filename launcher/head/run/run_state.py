"""The state of a run.

Events are calls, given to `RunState.step` with their time: of a method here, or of a function that
takes the state. Calls of `RunActions` follow, in order, once a step is over. Nothing here waits,
reads a clock or sends.
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
from .start_message import StagedStart, start_message, window, world_of
from .workers import Workers, may_run_on

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Protocol

    from ...common.errors import DsrunError
    from ...common.loop import Timer
    from ...specs.host import Host
    from ...specs.job import JobSpec
    from ...specs.plan import Node, Plan
    from ..checks.compared_node import Outlier
    from ..fleet.node_connection import NodeConnection
    from ..shards.requests import ShardRequests
    from .events import Observers
    from .quick_check import QuickCheck
    from .restart_policy import RestartPolicy
    from .startup import AllReady

    class RunActions(Protocol):
        """The actions that a run may ask for; nodes are those of the run."""

        def ask(self, node: RunNode) -> None:
            """Have this node get its JOB, which it answers with HELLO."""
            ...

        def send(self, nodes: Sequence[RunNode], frame: bytes) -> None:
            """Send these nodes a frame."""
            ...

        def close_line(self, node: RunNode, reason: str) -> None:
            """Close the connection to a node: without one it ends its workers."""
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
            """Report that a node could not be reached again, and is tried again."""
            ...

        def log(self, text: str, level: str = "info") -> None:
            """Print a message for the user."""
            ...

        def status(self, text: str) -> None:
            """Show this as the line that replaces itself."""
            ...

        def list_files(self, nodes: Sequence[RunNode], outliers: Sequence[Outlier]) -> None:
            """Find out which files differ between nodes; `run_start.on_files` follows.

            It does not if this is asked for again.
            """
            ...

        def check_health(self, node: RunNode) -> None:
            """Run the health command on a node; `node_frames.on_health` follows."""
            ...

        def close_services(self) -> None:
            """Run no health command any more, and look for no other hosts."""
            ...

        def forward_input(self, node: RunNode) -> None:
            """Forward standard input to this node."""
            ...

        def label(self, plan: Plan) -> None:
            """Label the output of the ranks of this plan from now on."""
            ...

        def label_node(self, node: Node) -> None:
            """Label the output of the ranks of this node from now on, and of no others anew."""
            ...

        def ready(self, ready: AllReady) -> None:
            """Have the workers started, now or later: all nodes are ready."""
            ...

        def ask_allocation(self) -> None:
            """Ask Slurm whether the job's allocation has ended; `on_allocation` follows."""
            ...

        def suspend(self) -> None:
            """Suspend this process, for Ctrl-Z."""
            ...

        def show_stacks(self, nodes: Sequence[RunNode], workers: Workers) -> None:
            """Print where the running ranks are."""
            ...

        def finish(self) -> None:
            """Give the nodes back: the run is over."""
            ...


LAST_MARGIN = 35.0
"""Seconds beyond the grace for a node to report that nothing is left; it tries for 30 itself."""

ALLOCATION_WAIT = 5.0
"""Seconds for Slurm to answer whether the allocation has ended; mostly it takes milliseconds."""

CAUSE_WAIT = 0.5
"""Seconds for a backend to report why a connection has ended; the guard is done before that."""


class RunState:
    """A program on some nodes, from JOB to its end.

    Attributes:
        spec: its job.
        nodes: its nodes in rank order, followed by those that were added later.
        plan: which node has which ranks, for an elastic job in the current round.
        phase: its current phase.
        master: MASTER_ADDR of the workers, "" before the start.
        started: whether its workers were started.
        abandoned: whether a third interrupt has ended it without waiting for its nodes.
        error: why it was refused; None if it was not.
        record: what has happened so far.
        workers: the running workers.
        shards: the shard queues of its workers; None without --shard_queue.
        observers: make events for those who observe it; None if nobody does.
        compared: the nodes that are compared, or were last.
        window: bytes of output that a node may send before more are granted.
        now: when the present step is, on the loop's clock.
        timers: on a clock that does not count seconds in which this process was stopped.
        act: what it can have done; only ever called by way of `do`.
        do: takes an action, which is made once what is under way has ended.
        decide: takes a call that changes the state, which is made before those.
        interrupts: the signals so far that were to end it.
    """

    phase, master, now = RunPhase.STARTING, "", 0.0
    started = abandoned = False
    observers: Observers | None = None
    error: DsrunError | None = None
    compared: Sequence[RunNode] = ()
    _check: QuickCheck | None = None
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
        """Begin with nodes that have not got JOB.

        Args:
            spec: the job.
            nodes: its nodes in rank order.
            restarts: makes the restart policy.
            act: carries out what follows.
            find: returns the connection of a host that is added, and its place in the fleet.
            now: seconds on the loop's clock.
            awake: the same without those in which this process was stopped.
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
        self.unchecked: dict[RunNode, messages.Hello] = {}
        self._present = Remaining(lambda: self.nodes, lambda node: node.over)
        self._find = find
        self.restarts = restarts(self)
        self.startup = run_start.startup(self)
        if spec.plan.rendezvous is not None:
            self.workers.place = " here"
        self._of = {node.connection: node for node in nodes}
        self.on_frame = node_frames.handler(self)

    def step(self, now: float, awake: float, happened: Callable[[], object]) -> None:
        """Handle what has happened, and what is due by then; then have done what follows.

        What was decided before an exception is done all the same. The end of the run comes last:
        whoever waits for it uses the nodes for something else.

        Args:
            now: seconds on the loop's clock.
            awake: the same without those in which this process was stopped.
            happened: a call that tells of it.

        Raises:
            BadFrame: a node has sent a frame that is not expected.
        """
        self.now, self._awake = now, awake
        try:
            happened()
            while (call := self.timers.expired(awake)) is not None:
                call()
        finally:
            self._outbox.empty()
            if self.phase is RunPhase.OVER:
                self.act.finish()

    @property
    def due(self) -> float | None:
        """When the next step is due if nothing happens before, as `awake`; None if none is."""
        return self.timers.due

    def clock(self) -> float:
        """Return when the present step is."""
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

    def load_check(self) -> QuickCheck:
        """Return what compares nodes; it is imported when it is first needed."""
        if self._check is None:
            from .quick_check import QuickCheck

            self._check = QuickCheck(self.spec, self._on_finding)
        return self._check

    def _on_finding(self, line: str) -> None:
        self.warn(line)
        if self.observers:
            self.observers.warned(line)

    def node_of(self, connection: NodeConnection) -> RunNode:
        """Return the node that has this connection."""
        return self._of[connection]

    def add(self, host: Host) -> RunNode:
        """Add a node of a host that no run uses, or that the fleet does not know yet."""
        connection, place = self._find(host)
        self._of[connection] = added = RunNode(connection, place, len(self.nodes))
        self.nodes.append(added)
        return added

    def compare(self, node: RunNode, others: Sequence[RunNode]) -> str:
        """Return why a node may not join others, "" if it may."""
        quick = self.spec.checks.quick
        return self.load_check().compare_newcomer(node, others) if quick else ""

    @property
    def stopping(self) -> bool:
        """Whether it is being stopped, or has ended on all nodes."""
        return self.phase >= RunPhase.STOPPING

    @property
    def ending(self) -> bool:
        """Whether it has ended on all nodes."""
        return self.phase >= RunPhase.ENDING

    # -- rounds -----------------------------------------------------------------------------

    def label(self, plan: Plan) -> None:
        """Use this plan from now on: its labels of ranks and its DSRUN_WORLD_INFO."""
        self.plan, self._world = plan, world_of(plan)
        self.do(self.act.label, plan)

    def forget_round(self) -> None:
        """Forget how workers of earlier rounds have ended."""
        self.record.forget_exits()
        self.workers.begin_again()

    def start_message(self, node: Node, master: str, port: int) -> messages.Start:
        """Return the START message of a node, given MASTER_ADDR and MASTER_PORT."""
        return start_message(self.plan, node, master, port, self.window, self._world)

    # -- stopping ---------------------------------------------------------------------------

    def refuse(self, error: DsrunError) -> None:
        """End the run with this error instead of a report."""
        self.error = error
        self.end()

    def record_given_up(self, reason: str) -> None:
        """Record that the run ends for this reason: there are too few nodes."""
        self.record.forget_exits()  # of workers of a former round: nobody has worked since
        self.record.gave_up(reason, self.now)
        self._record_together()

    def stop(self, number: int, grace: float | None = None) -> None:
        """Stop every node; a second call passes on its signal, and can shorten the grace."""
        grace = self.grace if grace is None else grace
        self._begin_nothing_more()
        self.send(self.nodes, messages.pack(frames.STOP, messages.Stop(number, grace)))
        self.staged.cancel()
        self.workers.close()
        if self.phase is RunPhase.RUNNING:
            self.phase = RunPhase.STOPPING
            self._last_wait = self.timers.call_later(grace + LAST_MARGIN, self._give_up_waiting)
        self.end_when_over()

    def _begin_nothing_more(self) -> None:
        self.restarts.close()
        self.do(self.act.close_services)

    def _give_up_waiting(self) -> None:
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
            self._tell_loss(node, reason, left=running and explained)
            self.staged.on_answer(node)
            self.restarts.on_loss(node)
            return
        self.record.lost(node.name, reason, self.now, explained=explained, own=own)
        self._record_together()
        self.stop(signal.SIGTERM)

    def _tell_loss(self, node: RunNode, reason: str, *, left: bool) -> None:
        """Tell of a node without which the run goes on, once of all that are silent together."""
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
        """Record the loss of all nodes that have fallen silent together: the run ends for it."""
        for node in self.nodes:
            if node.lost and node.connection.silence.together:
                self.record.lost(node.name, node.lost, self.now)

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
        if RunPhase.RUNNING <= self.phase < RunPhase.ENDING and not self._present:
            self.end()

    def end(self) -> None:
        """End the run, once backends have had time to report why connections have ended."""
        if self.phase >= RunPhase.ENDING:
            return
        self.phase = RunPhase.ENDING
        self.record.ended = self.now
        self.startup.close()
        self._begin_nothing_more()
        self.workers.close()
        self.timers.call_later(CAUSE_WAIT, self._give_up_causes)
        self._ask_allocation()
        self.end_if_explained()

    def _ask_allocation(self) -> None:
        """Ask whether Slurm has ended the job, if that would explain how the run has ended.

        Workers may end well by its signal before anybody here has heard of that.
        """
        allocates = BACKENDS[self.spec.plan.launcher].allocates
        if self.started and allocates and self.record.may_be_cancelled:
            self.record.asks_allocation = True
            self.do(self.act.ask_allocation)
            self.timers.call_later(ALLOCATION_WAIT, self._finish)

    def _give_up_causes(self) -> None:
        self.record.give_up_causes()
        self.end_if_explained()

    def abandon(self) -> None:
        """End the run without waiting for its nodes."""
        self.record.ended = self.now
        self.abandoned = True
        self._finish()

    def end_if_explained(self) -> None:
        """End the run now if nobody has a cause to report."""
        if not self.record.awaits_causes:
            self._finish()

    def _finish(self) -> None:
        if self.phase is RunPhase.OVER:
            return
        self.phase = RunPhase.OVER
        if self._last_wait is not None:
            self._last_wait.cancel()


def _shards(run: RunState) -> ShardRequests:
    from ..shards.requests import ShardRequests

    return ShardRequests(run.send, run.warn)
