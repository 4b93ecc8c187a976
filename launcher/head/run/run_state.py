"""The state of a run: values in, values out.

Events, requests and decisions are given to `RunState.step`, with their time; what is to be done is
returned. Nothing here waits, reads a clock or sends: `Run` does.
"""

from __future__ import annotations

import signal
from collections import deque
from functools import partial

from ...backends import BACKENDS
from ...common.event_queue import Remaining
from ...common.loop import Timers
from ...control import frames, messages
from . import decisions, effects, fleet_events, run_rounds, run_signals, run_start
from .phase import RunPhase
from .record import JobRecord
from .restart_policy import Course
from .run_node import RunNode
from .start_message import StagedStart, start_message, window, world_of
from .workers import Workers, may_run_on

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from ...common.errors import DsrunError
    from ...common.loop import Timer
    from ...specs.host import Host
    from ...specs.job import JobSpec
    from ...specs.plan import Node, Plan
    from ..fleet.node_connection import NodeConnection
    from ..shards.requests import ShardRequests
    from .effects import Effect
    from .events import Observers
    from .quick_check import QuickCheck
    from .restart_policy import RestartPolicy

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
        do: takes an effect, or a decision, which is carried out once what is under way has ended.
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
        restarts: Callable[[Course], RestartPolicy],
        find: Callable[[Host], tuple[NodeConnection, Node]],
        now: float,
        awake: float,
    ) -> None:
        """Begin with nodes that have not got JOB.

        Args:
            spec: the job.
            nodes: its nodes in rank order.
            restarts: makes the restart policy.
            find: returns the connection of a host that is added, and its place in the fleet.
            now: seconds on the loop's clock.
            awake: the same without those in which this process was stopped.
        """
        self.spec, self.plan, self.nodes, self.now = spec, spec.plan, nodes, now
        self.grace, self.lease = spec.supervision.grace, spec.supervision.heartbeat_timeout
        self._awake = awake
        self.timers = Timers(lambda: self._awake)
        self._queue: deque[Any] = deque()
        self.do: Callable[[Any], None] = self._queue.append
        self.record = JobRecord(spec.job_id, now)
        self.workers = Workers(self.clock, self.timers, self.warn)
        self.shards = _shards(self) if spec.workers.shard_queue else None
        self.window = window(len(nodes))
        self.staged = StagedStart(nodes[0], self.do)
        self.unchecked: dict[RunNode, messages.Hello] = {}
        self._present = Remaining(lambda: self.nodes, lambda node: node.over)
        self._find = find
        self.restarts = restarts(self._course())
        self.startup = run_start.startup(self)
        if spec.plan.rendezvous is not None:
            self.workers.place = " here"
        self._of = {node.connection: node for node in nodes}
        self._handlers = self._table()

    def _course(self) -> Course:
        return Course(
            spec=self.spec,
            nodes=self.nodes,
            record=self.record,
            workers=self.workers,
            timers=self.timers,
            clock=self.clock,
            do=self.do,
            add=self._add,
            compare=self._compare,
        )

    def _table(self) -> dict[type, Callable[..., None]]:
        """Return what handles each kind of event and decision."""
        return {
            **fleet_events.table(self),
            **run_signals.table(self),
            **run_start.table(self),
            **run_rounds.table(self),
            **self.restarts.actions,
            decisions.Refuse: lambda it: self.refuse(it.error),
            decisions.StopAll: lambda it: self.stop(it.number, it.grace),
            decisions.GiveUp: self._give_up,
            decisions.Restart: lambda it: self.restarts.restart(*it),
            decisions.Lose: lambda it: self.lose(*it[:2], over=it.over, explained=it.explained),
            decisions.RecordGivenUp: self._record_given_up,
            decisions.RecordLoss: lambda it: self.record.lost(it.host, it.reason, self.now),
            decisions.SetError: self._set_error,
            decisions.End: lambda _it: self.end(),
            decisions.EndWhenOver: lambda _it: self.end_when_over(),
            decisions.Abandon: lambda _it: self.abandon(),
            decisions.TimePassed: lambda _it: None,
            partial: lambda call: call(),
        }

    def step(self, now: float, awake: float, event: object) -> list[Effect]:
        """Handle an event, a request or a decision, and what is due by then.

        Args:
            now: seconds on the loop's clock.
            awake: the same without those in which this process was stopped.
            event: one of the fleet, or one of `decisions`.

        Returns:
            what is to be done, in this order.

        Raises:
            BadFrame: a node has sent a frame that is not expected; see `effects` for the rest.
        """
        self.now, self._awake = now, awake
        self._handlers[type(event)](event)
        while (call := self.timers.expired(awake)) is not None:
            call()
        return self.effects()

    def effects(self) -> list[Effect]:
        """Carry out what was decided; return what is to be done outside of the run.

        What a decision leads to comes before the decisions after it. The end of the run comes last:
        whoever waits for it uses the nodes for something else.
        """
        found: list[Effect] = []
        over: list[Effect] = []
        while self._queue:
            one = self._queue.popleft()
            handler = self._handlers.get(type(one))
            if handler is None:
                (over if type(one) is effects.Over else found).append(one)
                continue
            rest = [*self._queue]
            self._queue.clear()
            handler(one)
            self._queue.extend(rest)
        return found + over

    @property
    def due(self) -> float | None:
        """When the next step is due if nothing happens before, as `awake`; None if none is."""
        return self.timers.due

    def clock(self) -> float:
        """Return when the present step is."""
        return self.now

    def log(self, text: str, level: str = "info") -> None:
        """Print a message for the user."""
        self.do(effects.Log(text, level))

    def warn(self, text: str) -> None:
        """Print a warning for the user."""
        self.do(effects.Log(text, "warning"))

    def send(self, nodes: Sequence[RunNode], frame: bytes) -> None:
        """Send these nodes a frame."""
        self.do(effects.Send(nodes, frame))

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

    def _add(self, host: Host) -> RunNode:
        """Add a node of a host that no run uses, or that the fleet does not know yet."""
        connection, place = self._find(host)
        self._of[connection] = added = RunNode(connection, place, len(self.nodes))
        self.nodes.append(added)
        return added

    def _compare(self, node: RunNode, others: Sequence[RunNode]) -> str:
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
        self.do(effects.Label(plan))

    def forget_round(self) -> None:
        """Forget how workers of earlier rounds have ended."""
        self.record.forget_exits()
        self.workers.begin_again()

    def start_message(self, node: Node, master: str, port: int) -> messages.Start:
        """Return the START message of a node, given MASTER_ADDR and MASTER_PORT."""
        return start_message(self.plan, node, master, port, self.window, self._world)

    # -- stopping ---------------------------------------------------------------------------

    def _set_error(self, ended: decisions.SetError) -> None:
        self.error = ended.error

    def refuse(self, error: DsrunError) -> None:
        """End the run with this error instead of a report."""
        self.error = error
        self.end()

    def _record_given_up(self, found: decisions.RecordGivenUp) -> None:
        self.record.forget_exits()  # of workers of a former round: nobody has worked since
        self.record.gave_up(found.reason, self.now)
        self._record_together()

    def _give_up(self, found: decisions.GiveUp) -> None:
        self.warn(f"{found.reason}: stopping the job")
        self.record.gave_up(found.reason, self.now, found.code, found.words, found.sign)
        self.stop(signal.SIGTERM)

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
        self.do(effects.CloseServices())

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
            self.do(effects.AskAllocation())
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
        self.do(effects.Over())


def _shards(run: RunState) -> ShardRequests:
    from ..shards.requests import ShardRequests

    return ShardRequests(run.send, run.warn)
