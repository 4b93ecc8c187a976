"""The rounds of an elastic job, as the runner forms them: the members, and their order.

Membership is decided here and nowhere else, so ranks are dense, in the order of the hosts, and the
same on every node. A round is formed as soon as all live members of the last one are
ready for it. Other nodes join if they are ready by then, and otherwise wait for a later round.

All of this is pure. Each event is a method, with the time as its first argument. Each consequence
is a call of `RoundActions`, put off until the events in progress have ended.
"""

from __future__ import annotations

from functools import partial, wraps

from ...common.loop import Timers
from .runner_failures import Failures
from .runner_master_selection import MasterSelection
from .runner_node_directory import select
from .runner_node_waits import LostTogether, MinNodesWait, ScaleUpDelay
from .runner_round_state import CurrentRound, MemberState, NodeStates, RoundPhase

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from collections.abc import Set as AbstractSet
    from typing import Concatenate, ParamSpec, Protocol, TypeVar

    from ...specs.policies import ElasticPolicy
    from .runner_node_directory import NodeDirectory

    P = ParamSpec("P")
    T = TypeVar("T")

    class RoundActions(Protocol):
        """Carries out the decisions about rounds; nodes go by their number in the run."""

        def probe(self, first: int, nodes: tuple[int, ...]) -> None:
            """Make each of `nodes` try the addresses of `first`, perhaps a round's first node.

            `Rounds.node_reached` follows for each.
            """

        def form(self, members: tuple[int, ...], address: str, restarts: int) -> None:
            """Form the next round of these nodes, in this order.

            Args:
                members: the nodes.
                address: the address of the first node, which all others have reached.
                restarts: the number of failures so far.
            """

        def stop_round(self, nodes: tuple[int, ...]) -> None:
            """Make these nodes leave their round."""

        def notify(self, nodes: tuple[int, ...]) -> None:
            """Make these nodes tell their workers that the round will end soon."""

        def release(self, node: int) -> None:
            """Release this node, which is no longer needed."""

        def lose(self, node: int, reason: str, *, for_good: bool) -> None:
            """Treat this node as lost, and reconnect it unless that is `for_good`."""

        def check(self, nodes: tuple[int, ...]) -> None:
            """Run the health command on these nodes; their round may begin once it has passed."""

        def stop_for_failure(self) -> None:
            """End the job: no node was lost that could explain the failure."""

        def clear_failures(self) -> None:
            """Forget the failures of the round, which the loss of a node has caused."""

        def stop_too_few(self) -> None:
            """End the job: there were too few nodes for too long."""

        def finish(self) -> None:
            """End the job: all workers of the round have ended with code 0."""

        def warn(self, text: str) -> None:
            """Print a warning for the user."""


NEWCOMERS = 120.0
"""Seconds to wait for nodes without which there can be no round."""

SETTLE = 1.0
"""Seconds between a failure that would end the job and its end. By then the loss of a node is
known, which often is first noticed by the workers of others."""


def _event(
    handle: Callable[Concatenate[Rounds, P], T],
) -> Callable[Concatenate[Rounds, float, P], T]:
    """Return a method with the time as an additional first argument.

    The time is in seconds, never decreases, and does not count time in which this process was
    stopped.
    """

    @wraps(handle)
    def event(rounds: Rounds, now: float, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return rounds.advance(now, partial(handle, rounds, *args, **kwargs))

    return event


class Rounds:
    """The course of one job's rounds.

    Attributes:
        generation: the number of the current round, from 1 on.
        members: the present nodes of the round.
        over: whether all workers of a round have ended with code 0.
    """

    def __init__(
        self,
        do: RoundActions,
        later: Callable[[Callable[[], object]], object],
        nodes: int,
        limits: ElasticPolicy,
        directory: NodeDirectory,
        now: float,
    ) -> None:
        """Wait for nodes to get ready.

        Args:
            do: carries out the decisions.
            later: postpones a call to the end of the current step.
            nodes: the number of nodes, numbered from 0 on.
            limits: the limits for shrinking, growing and failing.
            directory: describes each node.
            now: the time in seconds, on the clock of all events.
        """
        self._do, self._later = do, later
        self._limits = limits
        self._now = now
        self._timers = timers = Timers(lambda: self._now)
        self._outbox: list[Callable[[], object]] = []
        self._directory = directory
        self._most = limits.most
        self._failures = Failures(limits, timers.clock, directory.name, self._log)
        self._scale_up = ScaleUpDelay(timers, limits.gain_delay, self._consider, self._log)
        self._master = MasterSelection(
            timers, limits.patience, directory, self._probe, self._lose_nodes
        )
        self._nodes = NodeStates(nodes)
        self._retiring: set[int] = set()
        self._giving_up: set[int] = set()
        self._awaited: dict[int, float] = {}
        self._current = CurrentRound()
        self._min_nodes_wait = MinNodesWait(timers, limits, self._log, self._on_wait_over)
        self._lost = LostTogether(timers, NEWCOMERS, self._try_form, self._log)
        self._ending = self._closed = self.over = False
        self.generation = 0
        self.members: set[int] = set()

    def advance(self, now: float, event: Callable[[], T]) -> T:
        """Handle an event at a time; return the event's result."""
        self._now = now
        answer = event()
        decided, self._outbox = self._outbox, []
        for one in decided:
            self._later(one)
        return answer

    def _then(self, call: Callable[P, None], *args: P.args, **kwargs: P.kwargs) -> None:
        """Make this call at the end of the current step."""
        self._outbox.append(partial(call, *args, **kwargs))

    @property
    def due(self) -> float | None:
        """The time of the next due step; None if no step is due."""
        return self._timers.due

    @property
    def restarts(self) -> int:
        """The number of failures that were survived."""
        return self._failures.restarts

    @property
    def alive(self) -> int:
        """The number of nodes, in a round or not."""
        return len(self._nodes)

    @property
    def starting(self) -> bool:
        """True until the workers of the current round count as well started."""
        return self._scale_up.left > 0

    def is_running(self, node: int) -> bool:
        """Return whether a node is in the current round, as far as the runner can tell."""
        return node in self._nodes.running

    @property
    def round_ends(self) -> bool:
        """True if the nodes of the current round have been told to leave it."""
        return self._current.phase is RoundPhase.ENDING

    def is_leaving(self, node: int) -> bool:
        """Return whether a node has been released, and has not ended yet."""
        return node in self._nodes.leaving

    def _log(self, text: str) -> None:
        self._then(self._do.warn, text)

    def _probe(self, first: int, nodes: tuple[int, ...]) -> None:
        self._then(self._do.probe, first, nodes)

    # -- nodes come and go ------------------------------------------------------------------

    @_event
    def job_started(
        self, first: int, address: str, reached: Sequence[int], owed: Mapping[int, int]
    ) -> None:
        """Record the answers of the nodes, all of which have answered.

        Args:
            first: the node that has the master port.
            address: the address at which other nodes have reached it.
            reached: the nodes that have reached it.
            owed: the number of unanswered probes from before the start, by node.
        """
        reachability = self._master.reachability
        for node, answers in owed.items():
            reachability.owes(node, answers)
        for node in reached:
            reachability.verified(first, node, address)

    @_event
    def node_connected(self, node: int) -> bool:
        """Record a node that has connected, or returned; return whether a round can use it."""
        if node not in self._nodes and not self._ending and not self._closed:
            self._nodes.move([node], MemberState.STARTING)
            self._lost.found(node)
        return node in self._nodes

    @_event
    def node_ready(self, node: int) -> None:
        """Accept a node for the next round; a member of the current round has left that round."""
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
        """Return whether the job continues without a node, once it is gone."""
        if self._ending or self.over:
            return self.over
        rest = self.alive - (node in self._nodes)
        return rest >= self._limits.least or self._min_nodes_wait.can_wait

    @_event
    def node_lost(self, node: int) -> bool:
        """Continue without a lost node; return whether that is possible."""
        return self._lose(node)

    def _lose(self, node: int) -> bool:
        was_in, released = node in self.members, node in self._nodes.leaving
        self._remove(node)
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

    @_event
    def node_removed(self, node: int) -> bool:
        """Remove a node for good, if the job can continue without it; return whether it can.

        The node's host is no longer on the list, or another host has replaced this lost node.
        """
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

    @_event
    def size_limited(self, most: int) -> None:
        """Form rounds of at most this number of nodes from now on."""
        self._most = most
        self._master.cancel()
        self._consider()
        self._try_form()

    def _keep_needed(self) -> None:
        """Keep nodes that were to be removed, if the job now needs them."""
        missing = self._limits.least - (self.alive - len(self._retiring))
        for node in sorted(self._retiring)[: max(missing, 0)]:
            self._retiring.discard(node)

    @_event
    def job_stopped(self) -> None:
        """Form no other round: the job is being stopped."""
        self._closed = True
        self._current.cancel()
        self._nodes.clear()
        self._giving_up.clear()

    def _remove(self, node: int) -> None:
        self._nodes.remove(node)
        for nodes in (self.members, self._retiring, self._giving_up):
            nodes.discard(node)
        self._master.remove(node)

    # -- the end of the work ----------------------------------------------------------------

    @_event
    def node_finished(self, node: int, generation: int) -> None:
        """Record that all workers of a node, in the round of this number, have ended with code 0.

        The job is done once all nodes of the round are counted. Until then, a failure or a loss
        leads to another round, which includes this node.
        """
        if generation != self.generation or node not in self._nodes.running:
            return
        self._finish(node)

    @_event
    def node_done(self, node: int) -> bool:
        """Continue without a node that has ended, on request or not; return whether that works.

        The node takes part no longer, and from now on no failure is survived. But other members may
        have failed just before, and still wait for the node.
        """
        if node in self._nodes.leaving:
            return self._lose(node)
        self._ending = True
        self._remove(node)
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
            self._then(self._do.finish)

    # -- failures ---------------------------------------------------------------------------

    @_event
    def worker_failed(self, what: str, code: int, node: int, *, final: bool) -> bool:
        """Survive a failure with another round, or end the job; return whether the job continues.

        If not, `RoundActions.stop_for_failure` follows, or `clear_failures` if it turns out that a
        node was lost.

        Args:
            what: the failure, in words.
            code: the worker's exit code.
            node: the node of the failure.
            final: whether the failure is not worth a restart, whatever the budget.
        """
        goes_on = self._survive(what, code, node, final=final)
        if not goes_on:
            self._stop_for_failure()
        return goes_on

    @_event
    def restart_requested(self, why: str, code: int) -> bool:
        """Restart all workers for a watch; return whether there was a restart left."""
        return self._survive(why, code, None)

    def _survive(self, what: str, code: int, node: int | None, *, final: bool = False) -> bool:
        """Count a failure, of a worker or of no node; return whether another round follows.

        Only one failure counts in a round: failures while it ends may be consequences. After a
        `final` failure, there is no other round.
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

    def _stop_for_failure(self) -> None:
        """End the job, unless a node turns out to be lost once all losses have been reported."""
        enough = self.alive > self._limits.least or self._limits.wait > 0
        if enough and len(self.members) > 1 and not self._ending:
            self._current.await_losses(self._timers, SETTLE, self._decide)
        else:
            self._stop_job()

    def _decide(self) -> None:
        if self._closed:
            return
        if self._current.shrunk:
            self._then(self._do.clear_failures)
            self._try_form()
        else:
            self._stop_job()

    def _stop_job(self) -> None:
        self._closed = True
        self._then(self._do.stop_for_failure)

    @_event
    def node_vanishing(self, node: int, seconds: float) -> None:
        """Form no round until the workers of a node have ended: they have ranks of this round.

        The node is about to be lost; after this number of seconds its workers have certainly ended.
        """
        may_work = self._nodes.running | self._nodes.leaving & self._current.nodes
        if node in may_work - self._current.finished:
            self._awaited[node] = self._now + seconds

    @_event
    def workers_gone(self, node: int) -> None:
        """Record that the workers of a node, which may be lost, have ended."""
        if self._awaited.pop(node, None) is not None:
            self._try_form()

    def _count_no_failure(self) -> None:
        """Do not count a failure that the loss of a node has caused."""
        if self._current.failed and not self._current.shrunk:
            self._failures.take_back()
        self._current.shrunk = True

    # -- changes ----------------------------------------------------------------------------

    def _consider(self) -> None:
        """Start a change that can wait, if the next round would differ.

        A round in which a node has finished is not changed for that reason.
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
            """Stop the round, unless something else has ended it in the meantime."""
            if self._current is current and current.phase is RoundPhase.NOTICED:
                current.phase = RoundPhase.RUNNING
                if set(self._choose()) != self.members and not current.finished:
                    self._stop_round()

        self._then(self._do.notify, tuple(sorted(self._nodes.running)))
        self._timers.call_later(self._limits.notice, due)

    def _stop_round(self, but: int | None = None) -> None:
        """Tell running nodes to leave the round, except one that leaves on its own."""
        if self._current.phase is RoundPhase.ENDING:
            return
        self._current.phase = RoundPhase.ENDING
        self._let_go()
        nodes = tuple(sorted(self._nodes.running - {but}))
        if nodes:
            self._then(self._do.stop_round, nodes)
        seconds = self._limits.patience
        why = f"it did not stop its workers within {seconds:g} s"
        self._watch(seconds, self._nodes.running, why)

    def _let_go(self) -> None:
        """Release nodes that the next round excludes; the round waits for their end."""
        ending = self._current.phase is RoundPhase.ENDING
        for node in sorted(self._retiring if ending else self._retiring - self.members):
            self._remove(node)
            self._nodes.move([node], MemberState.LEAVING)
            self._then(self._do.release, node)

    def _watch(self, seconds: float, nodes: AbstractSet[int], why: str) -> None:
        """Give up the nodes that are left when the time is over, if no other round has formed."""

        def late() -> None:
            if not self._ending:
                self._lose_nodes(dict.fromkeys(sorted(nodes), why))

        self._current.watch(self._timers, seconds, late)

    def _lose_nodes(
        self, reasons: Mapping[int, str], for_good: AbstractSet[int] = frozenset()
    ) -> None:
        """Give up nodes; the next round is formed once none of them is left."""
        self._giving_up |= reasons.keys()
        for node, reason in reasons.items():
            self._then(self._do.lose, node, reason, for_good=node in for_good)

    @_event
    def node_reached(self, node: int, verdicts: Sequence[str]) -> None:
        """Continue once a node has tried the addresses of a probe: "" for each that it reaches.

        Raises:
            ValueError: the answer is to a probe of another number of addresses.
        """
        if self._master.reachability.answered(node, verdicts):
            self._try_form()

    @_event
    def worker_printed(self) -> None:
        """Record that a worker has printed something: its round has started well."""
        self._scale_up.finish()

    @_event
    def nodes_checked(self) -> None:
        """Form the next round if it waited only for the health command."""
        self._try_form()

    @_event
    def time_passed(self) -> None:
        """Do due steps; no other event does, for the reason in `fleet_events.time_passed`."""
        while (call := self._timers.expired(self._now)) is not None:
            call()

    # -- the next round ---------------------------------------------------------------------

    def _try_form(self) -> None:
        """Form the next round if it is due."""
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
        """Form a round of the ready nodes, once they are checked and reach their master."""
        members = self._master.members or self._choose()
        # Nodes that are done count as well.
        if not members or (len(members) < self._limits.least and not self._ending):
            self._await_more()
        elif not self._directory.may_start(members):
            self._then(self._do.check, tuple(members))
        else:
            address = self._master.find(members, self.members)
            if address:
                self._start_round(members, address)

    def _start_round(self, members: Sequence[int], address: str) -> None:
        self._min_nodes_wait.cancel()
        self._lost.cancel()
        self._awaited.clear()
        self.generation += 1
        self.members = set(members)
        self._nodes.move(members, MemberState.RUNNING)
        self._master.cancel()
        self._current.cancel()
        self._current = CurrentRound(members, self._now)
        self._scale_up.start()
        self._then(self._do.form, tuple(members), address, self.restarts)
        if self._nodes.ready:
            self._consider()

    def _choose(self) -> list[int]:
        """Return the next round of ready or running nodes."""
        there = (self._nodes.ready | self._nodes.running) - self._retiring
        free = there - self._failures.excluded
        enough = len(free) >= self._limits.least
        return select(free if enough else there, self.members, self._most, self._directory)

    # -- what it waits for ------------------------------------------------------------------

    def _await_more(self) -> None:
        """Wait first for present nodes, then for others, if there are too few for a round."""
        if self._nodes.starting:
            self._await_late()
        elif not self._min_nodes_wait.wait(len(self._choose())):
            self._then(self._do.stop_too_few)

    def _await_late(self) -> None:
        """Wait for nodes that were in no round, but not forever."""
        if not self._current.watched:
            self._current.watched = True
            why = f"it was not ready for a round within {NEWCOMERS:g} s"
            self._watch(NEWCOMERS, self._nodes.starting, why)

    def _on_wait_over(self) -> None:
        """Give up, unless there are now enough nodes for a round that is only delayed."""
        if self.alive < self._limits.least:
            self._then(self._do.stop_too_few)
        else:
            self._try_form()
