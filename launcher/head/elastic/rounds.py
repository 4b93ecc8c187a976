"""The rounds of an elastic job, as the runner forms them: who takes part, and in which order.

Membership is decided here and nowhere else, so ranks are dense, in the order of the hosts, and the
same on every node. A round is formed as soon as all members of the last one that are alive are
ready for it. Other nodes take part if they are ready by then, and else in a later round.

All of this is pure: what happens is given to `Rounds.step`, with its time, and what is to be done
is returned.
"""

from __future__ import annotations

from ...common.loop import Timers
from ...common.values import NamedTuple
from ..run.effects import Log
from . import round_events as events
from .failures import Failures
from .master_selection import MasterSelection
from .node_directory import select
from .node_waits import LostTogether, MinNodesWait, ScaleUpDelay
from .round_actions import (
    CheckNodes,
    DropNode,
    EndForFailure,
    Finish,
    ForgetFailures,
    Form,
    Notify,
    ReleaseMember,
    StopRound,
    TooFew,
)
from .round_state import CurrentRound, MemberState, NodeStates, RoundPhase

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from collections.abc import Set as AbstractSet
    from typing import Any

    from ...specs.policies import ElasticPolicy
    from .node_directory import NodeDirectory
    from .round_actions import RoundAction
    from .round_events import RoundEvent

NEWCOMERS = 120.0
"""Seconds to wait for nodes to get ready without which there can be no round."""

SETTLE = 1.0
"""Seconds from a failure that would end the job until it does: the loss of a node, which others'
workers often notice first, is known by then."""


class RoundsStep(NamedTuple):
    """What follows from an event.

    Attributes:
        accepted: the answer, for an event that has one.
        actions: what is to be done, in this order.
    """

    accepted: bool
    actions: tuple[RoundAction | Log, ...]


class Rounds:
    """The course of one job's rounds.

    Attributes:
        generation: the number of the current round, from 1 on.
        members: the nodes in it that are still there.
        over: all workers of a round have ended with code 0.
    """

    def __init__(
        self, nodes: int, limits: ElasticPolicy, directory: NodeDirectory, now: float
    ) -> None:
        """Wait for nodes to get ready.

        Args:
            nodes: how many there are, numbered from 0 on.
            limits: how far the job may shrink, grow and fail.
            directory: describes each node.
            now: the time in seconds, as `step` gets it.
        """
        self._limits = limits
        self._now = now
        self._timers = timers = Timers(lambda: self._now)
        self._actions: list[RoundAction | Log] = []
        self._do = do = self._actions.append
        self._directory = directory
        self._most = limits.most
        self._failures = Failures(limits, timers.clock, directory.name, self._log)
        self._scale_up = ScaleUpDelay(timers, limits.gain_delay, self._consider, self._log)
        self._master = MasterSelection(timers, limits.patience, directory, do, self._give_up)
        self._nodes = NodeStates(nodes)
        self._retiring: set[int] = set()
        self._giving_up: set[int] = set()
        self._awaited: dict[int, float] = {}
        self._current = CurrentRound()
        self._min_nodes_wait = MinNodesWait(timers, limits, self._log, self._end_wait)
        self._lost = LostTogether(timers, NEWCOMERS, self._try_form, self._log)
        self._ending = self._closed = self.over = False
        self.generation = 0
        self.members: set[int] = set()
        self._handlers = self._table()

    def _table(self) -> dict[type, Callable[..., bool | None]]:
        """Return what handles each kind of event, given its fields."""
        return {
            events.JobStarted: self._on_start,
            events.MemberConnected: self._on_connected,
            events.NodeReady: self._on_ready,
            events.NodeLost: self._on_lost,
            events.NodeDone: self._on_done,
            events.NodeFinished: self._on_finished,
            events.NodeReached: self._on_reached,
            events.NodeRemoved: self._on_removed,
            events.WorkerFailed: self._on_failure,
            events.AlertRestart: self._on_request,
            events.WorkerPrinted: self._scale_up.end,
            events.SizeLimited: self._on_size,
            events.NodeVanishing: self._on_vanishing,
            events.WorkersGone: self._on_workers_gone,
            events.NodesChecked: self._try_form,
            events.JobStopped: self._on_stop,
            events.RoundTimePassed: lambda: None,
        }

    def step(self, now: float, event: RoundEvent) -> RoundsStep:
        """Handle an event at a time, and what is due by then.

        Args:
            now: seconds, not before those of the last step; they do not count those in which this
                process was stopped.
            event: what has happened.

        Raises:
            ValueError: a node has answered a probe of another number of addresses.
        """
        self._now = now
        fields: Any = event
        accepted = self._handlers[type(event)](*fields)
        while (call := self._timers.expired(now)) is not None:
            call()
        actions = tuple(self._actions)
        self._actions.clear()
        return RoundsStep(accepted is not False, actions)

    @property
    def due(self) -> float | None:
        """When the next step is due if nothing happens before; None if none is."""
        return self._timers.due

    @property
    def restarts(self) -> int:
        """How many failures were survived."""
        return self._failures.restarts

    @property
    def alive(self) -> int:
        """How many nodes there are, in a round or not."""
        return len(self._nodes)

    @property
    def starting(self) -> bool:
        """Whether it is not known yet that the workers of the current round have started well."""
        return self._scale_up.left > 0

    def is_leaving(self, node: int) -> bool:
        """Return whether a node has been released, and has not ended yet."""
        return node in self._nodes.leaving

    def _log(self, text: str) -> None:
        self._do(Log(text, "warning"))

    # -- nodes come and go ------------------------------------------------------------------

    def _on_start(
        self, first: int, address: str, reached: Sequence[int], owed: Mapping[int, int]
    ) -> None:
        reachability = self._master.reachability
        for node, answers in owed.items():
            reachability.owes(node, answers)
        for node in reached:
            reachability.verified(first, node, address)

    def _on_connected(self, node: int) -> bool:
        if node not in self._nodes and not self._ending and not self._closed:
            self._nodes.move([node], MemberState.STARTING)
            self._lost.found(node)
        return node in self._nodes

    def _on_ready(self, node: int) -> None:
        if node not in self._nodes:
            return
        if node in self._nodes.ready:
            self._master.reachability.moved(node)
        ran = node in self._nodes.running
        self._nodes.move([node], MemberState.READY)
        if ran:
            self._stop_round()
        elif not self._scale_up.awaited:
            self._consider()
        self._try_form()

    def survives(self, node: int) -> bool:
        """Return whether the job goes on without a node, once it is gone."""
        if self._ending or self.over:
            return self.over
        rest = self.alive - (node in self._nodes)
        return rest >= self._limits.least or self._min_nodes_wait.can_wait

    def _on_lost(self, node: int) -> bool:
        """Go on without a node; return whether that is possible."""
        was_in, released = node in self.members, node in self._nodes.leaving
        self._forget(node)
        if self._ending or self.over:
            return self.over
        if not released:
            self._lost.lost(node, last=was_in and not self.members)
        if was_in:
            self._count_no_failure()
        self._keep_needed()
        if self.alive < self._limits.least and not self._min_nodes_wait.wait(len(self._choose())):
            return False
        if was_in:
            self._stop_round()
        self._try_form()
        return True

    def _on_removed(self, node: int) -> bool:
        """Remove a node for good, if the job can do without it; return whether it can."""
        rest = self.alive - len(self._retiring | {node})
        if node not in self._nodes:
            self._lost.found(node)
            self._try_form()
            return False
        if rest < self._limits.least or self._ending:
            return False
        self._retiring.add(node)
        self._master.cancel()
        if node in self.members and self._current.phase is not RoundPhase.ENDING:
            self._consider()
        else:
            self._let_go()
        self._try_form()
        return True

    def _on_size(self, most: int) -> None:
        self._most = most
        self._master.cancel()
        self._consider()
        self._try_form()

    def _keep_needed(self) -> None:
        """Keep nodes that were to be removed, as far as the job cannot do without them any more."""
        missing = self._limits.least - (self.alive - len(self._retiring))
        for node in sorted(self._retiring)[: max(missing, 0)]:
            self._retiring.discard(node)

    def _on_stop(self) -> None:
        self._closed = True
        self._current.end()
        self._nodes.clear()
        self._giving_up.clear()

    def _forget(self, node: int) -> None:
        self._nodes.remove(node)
        for nodes in (self.members, self._retiring, self._giving_up):
            nodes.discard(node)
        self._master.forget(node)

    # -- the end of the work ----------------------------------------------------------------

    def _on_finished(self, node: int, generation: int) -> None:
        """Count a node whose workers have all ended with code 0.

        The job is done once that is so on every node of the round. Until then a failure or a loss
        leads to another round, in which this node takes part.
        """
        if generation != self.generation or node not in self._nodes.running:
            return
        self._finish(node)

    def _on_done(self, node: int) -> bool:
        """Go on without a node that has ended by itself; return whether that is possible.

        It takes part no more, so from now on no failure is survived. But other members may have
        failed just before, and be waiting for it.
        """
        if node in self._nodes.leaving:
            return self._on_lost(node)
        self._ending = True
        self._forget(node)
        self._finish(node)
        waits = bool(self._nodes.ready & self.members)
        if self.over or (not waits and self.alive):
            return True
        if self.alive < self._limits.least:
            return False
        self._try_form()
        return True

    def _finish(self, node: int) -> None:
        """End the job if the work of this node was the last of the round."""
        if not self._current.finished:
            self._failures.doubt(self._now - self._current.began)
        self._current.finished |= {node} & self._current.nodes
        if self._current.complete and not self.over:
            self.over = True
            self._do(Finish())

    # -- failures ---------------------------------------------------------------------------

    def _on_failure(self, what: str, code: int, node: int, final: bool) -> bool:
        """Survive a failure with another round, or end the job; return whether it goes on."""
        goes_on = self._survive(what, code, node, final=final)
        if not goes_on:
            self._end_for_failure()
        return goes_on

    def _on_request(self, why: str, code: int) -> bool:
        return self._survive(why, code, None)

    def _survive(self, what: str, code: int, node: int | None, *, final: bool = False) -> bool:
        """Count a worker's failure, or one of no node; return whether another round follows.

        One counts in a round: what fails while it ends anyway may well have failed because of that.
        There is no other round after a `final` one.
        """
        if self._current.phase is RoundPhase.ENDING:
            return True
        lasted = self._now - self._current.began
        done = final or self._ending or self._closed
        if done or not self._failures.survive(what, code, lasted):
            return False
        self._current.failed = True
        if node is not None and self._failures.blame(node, self._nodes):
            self._timers.call_later(self._limits.cool, self._consider)
        self._stop_round(but=node)
        return True

    def _end_for_failure(self) -> None:
        """End the job, unless a node turns out to be lost by the time that all losses are known."""
        enough = self.alive > self._limits.least or self._limits.wait > 0
        if enough and len(self.members) > 1 and not self._ending:
            self._current.await_losses(self._timers, SETTLE, self._decide)
        else:
            self._end()

    def _decide(self) -> None:
        if self._closed:
            return
        if self._current.shrunk:
            self._do(ForgetFailures())
            self._try_form()
        else:
            self._end()

    def _end(self) -> None:
        self._closed = True
        self._do(EndForFailure())

    def _on_vanishing(self, node: int, seconds: float) -> None:
        """Form no round before the workers of a node have ended: they have ranks of this one."""
        may_work = self._nodes.running | self._nodes.leaving & self._current.nodes
        if node in may_work - self._current.finished:
            self._awaited[node] = self._now + seconds

    def _on_workers_gone(self, node: int) -> None:
        if self._awaited.pop(node, None) is not None:
            self._try_form()

    def _count_no_failure(self) -> None:
        """Count nothing for a failure that the loss of a node has caused."""
        if self._current.failed and not self._current.shrunk:
            self._failures.take_back()
        self._current.shrunk = True

    # -- changes ----------------------------------------------------------------------------

    def _consider(self) -> None:
        """Begin a change that can wait, if the next round would be another one.

        A round in which a node has finished is not changed any more for that.
        """
        current = self._current
        if self._ending or self._closed or not self._nodes.running or current.finished:
            return
        if current.phase is not RoundPhase.RUNNING:
            return
        chosen = set(self._choose())
        if chosen == self.members:
            return
        if self.members < chosen and self._scale_up.left:
            self._scale_up.wait(len(chosen))
        elif self._limits.notice:
            self._notify()
        else:
            self._stop_round()

    def _notify(self) -> None:
        current = self._current
        current.phase = RoundPhase.NOTICED

        def due() -> None:
            """Stop the round, unless something else has ended it by now."""
            if self._current is current and current.phase is RoundPhase.NOTICED:
                current.phase = RoundPhase.RUNNING
                if set(self._choose()) != self.members and not current.finished:
                    self._stop_round()

        self._do(Notify(tuple(sorted(self._nodes.running))))
        self._timers.call_later(self._limits.notice, due)

    def _stop_round(self, but: int | None = None) -> None:
        """Call the nodes that still run to leave the round, except one that leaves by itself."""
        if self._current.phase is RoundPhase.ENDING:
            return
        self._current.phase = RoundPhase.ENDING
        self._let_go()
        nodes = tuple(sorted(self._nodes.running - {but}))
        if nodes:
            self._do(StopRound(nodes))
        seconds = self._limits.patience
        why = f"it did not stop its workers within {seconds:g} s"
        self._watch(seconds, self._nodes.running, why)

    def _let_go(self) -> None:
        """Release nodes that are not to be in the next round, which waits until they have ended."""
        ending = self._current.phase is RoundPhase.ENDING
        for node in sorted(self._retiring if ending else self._retiring - self.members):
            self._forget(node)
            self._nodes.move([node], MemberState.LEAVING)
            self._do(ReleaseMember(node))

    def _watch(self, seconds: float, nodes: AbstractSet[int], why: str) -> None:
        """Give up the nodes that are left of some, if there is no other round by then."""

        def late() -> None:
            if not self._ending:
                self._give_up(dict.fromkeys(sorted(nodes), why))

        self._current.watch(self._timers, seconds, late)

    def _give_up(
        self, reasons: Mapping[int, str], for_good: AbstractSet[int] = frozenset()
    ) -> None:
        """Give up nodes; the next round is looked for once none of them is left."""
        self._giving_up |= reasons.keys()
        for node, reason in reasons.items():
            self._do(DropNode(node, reason, node in for_good))

    def _on_reached(self, node: int, verdicts: Sequence[str]) -> None:
        if self._master.reachability.answered(node, verdicts):
            self._try_form()

    # -- the next round ---------------------------------------------------------------------

    def _try_form(self) -> None:
        """Form the next round if it is time for it."""
        nodes = self._nodes
        if self._closed or nodes.running or self._giving_up or not nodes:
            return
        if nodes.leaving & self._current.nodes or self._current.undecided or self._master.pending:
            return
        wait = max([self._failures.not_before, *self._awaited.values()]) - self._now
        if nodes.starting and not self.members:
            self._await_late()
        elif not self.members and self._lost.wait(self._most - self.alive):
            return
        elif wait > 0:
            self._timers.call_later(wait, self._try_form)
        else:
            self._form()

    def _form(self) -> None:
        """Form it of those that are ready, once they have been checked and reach their master."""
        members = self._master.members or self._choose()
        # Nodes that are done count as well.
        if not members or (len(members) < self._limits.least and not self._ending):
            self._await_more()
        elif not self._directory.may_begin(members):
            self._do(CheckNodes(tuple(members)))
        else:
            address = self._master.find(members, self.members)
            if address:
                self._begin(members, address)

    def _begin(self, members: Sequence[int], address: str) -> None:
        self._min_nodes_wait.end()
        self._lost.end()
        self._awaited.clear()
        self.generation += 1
        self.members = set(members)
        self._nodes.move(members, MemberState.RUNNING)
        self._master.cancel()
        self._current.end()
        self._current = CurrentRound(members, self._now)
        self._scale_up.begin()
        self._do(Form(tuple(members), address, self.restarts))
        if self._nodes.ready:
            self._consider()

    def _choose(self) -> list[int]:
        """Return the next round of those that are ready or running."""
        there = (self._nodes.ready | self._nodes.running) - self._retiring
        free = there - self._failures.excluded
        enough = len(free) >= self._limits.least
        return select(free if enough else there, self.members, self._most, self._directory)

    # -- what it waits for ------------------------------------------------------------------

    def _await_more(self) -> None:
        """Wait for nodes that are there, then for others, with too few for a round."""
        if self._nodes.starting:
            self._await_late()
        elif not self._min_nodes_wait.wait(len(self._choose())):
            self._do(TooFew())

    def _await_late(self) -> None:
        """Wait for nodes that were in no round, but not for ever."""
        if not self._current.watched:
            self._current.watched = True
            why = f"it was not ready for a round within {NEWCOMERS:g} s"
            self._watch(NEWCOMERS, self._nodes.starting, why)

    def _end_wait(self) -> None:
        """Give up, unless there are enough nodes by now for a round that may not begin yet."""
        if self.alive < self._limits.least:
            self._do(TooFew())
        else:
            self._try_form()
