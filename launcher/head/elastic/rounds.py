"""The rounds of an elastic job, as the runner forms them: who takes part, and in which order.

Membership is decided here and nowhere else, so ranks are dense, in the order of the hosts, and the
same on every node. A round is formed as soon as all members of the last one that are alive are
ready for it. Other nodes take part if they are ready by then, and else in a later round.
"""

from __future__ import annotations

from .action_queue import ActionQueue
from .failures import Failures
from .gain_delay import GainDelay
from .meeting import Meeting
from .node_states import NodeStates
from .present_round import PresentRound, RoundPhase
from .round_actions import Change, Finish, Form, GiveUp, Notify, Release, Say, TooFew
from .selection import select
from .shortage import Shortage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from ...common.loop import Loop
    from ...specs.policies import ElasticPolicy
    from .node_table import NodeTable
    from .round_actions import RoundAction

NEWCOMERS = 120.0
"""Seconds to wait for nodes to get ready without which there can be no round."""


class Rounds:
    """The course of one job's rounds.

    Attributes:
        generation: the number of the present round, from 1 on.
        members: the nodes in it that are still there.
        over: all workers of a round have ended with code 0.
        gain: how long nodes that could join have to wait for the present round.
        meeting: where the nodes of the next round meet.
    """

    def __init__(
        self,
        nodes: int,
        limits: ElasticPolicy,
        loop: Loop,
        act: Callable[[RoundAction], None],
        table: NodeTable,
    ) -> None:
        """Wait for nodes to get ready; times are those of `loop`.

        Args:
            nodes: how many there are, numbered from 0 on.
            limits: how far the job may shrink, grow and fail.
            loop: has the clock and the timers.
            act: carries out an action.
            table: describes each node.
        """
        self._limits = limits
        self._loop = loop
        self._do = ActionQueue(act).add
        self._table = table
        self._most = limits.most
        self._failures = Failures(limits, loop.clock, table.name, self._say)
        self.gain = GainDelay(loop, limits.gain_delay, self._consider, self._say)
        self.meeting = Meeting(loop, limits.patience, table, self._do, self._give_up)
        self._held = 0.0
        self._nodes = NodeStates(nodes)
        self._retiring: set[int] = set()
        self._leaving: set[int] = set()
        self._giving_up: set[int] = set()
        self._present = PresentRound()
        self._shortage = Shortage(loop, limits, self._say, self._end_wait)
        self._ending = self._closed = self.over = False
        self.generation = 0
        self.members: set[int] = set()

    @property
    def restarts(self) -> int:
        """How many failures were survived."""
        return self._failures.restarts

    @property
    def alive(self) -> int:
        """How many nodes there are, in a round or not."""
        return len(self._nodes)

    def _say(self, text: str) -> None:
        self._do(Say(text))

    # -- nodes come and go ------------------------------------------------------------------

    def joined(self, node: int) -> None:
        """Record that a node is ready for a round; a member that is has left its own."""
        if node not in self._nodes:
            return
        if node in self._nodes.ready:
            self.meeting.points.moved(node)
        ran = node in self._nodes.running
        self._nodes.joined(node)
        if ran:
            self._change()
        elif not self.gain.awaited:
            self._consider()
        self.look()

    def came(self, node: int) -> bool:
        """Record that a node is there, or there again; return whether it is of use."""
        if not self._ending and not self._closed:
            self._nodes.came(node)
        return node in self._nodes

    def left(self, node: int) -> bool:
        """Record that a node is gone; return whether the job goes on without it."""
        was_in = node in self.members
        self._forget(node)
        if self._ending or self.over:
            return self.over
        if was_in:
            self._shrink()
        if self.alive < self._limits.least and not self._shortage.wait(len(self._choose())):
            return False
        if was_in:
            self._change()
        self.look()
        return True

    def retire(self, node: int) -> bool:
        """Remove a node for good, if the job can do without it; return whether it can."""
        rest = self.alive - len(self._retiring | {node})
        if node not in self._nodes or rest < self._limits.least or self._ending:
            return False
        self._retiring.add(node)
        self.meeting.cancel()
        if node in self.members and self._present.phase is not RoundPhase.ENDING:
            self._consider()
        else:
            self._let_go()
        self.look()
        return True

    def resize(self, most: int) -> None:
        """Form rounds of at most so many nodes from now on."""
        self._most = most
        self.meeting.cancel()
        self._consider()
        self.look()

    def is_leaving(self, node: int) -> bool:
        """Return whether a node has been released, and has not ended yet."""
        return node in self._leaving

    def close(self) -> None:
        """Form no other round: the job is being stopped."""
        self._closed = True
        self._present.end()
        self._nodes.clear()
        self._giving_up.clear()

    def _forget(self, node: int) -> None:
        self._nodes.left(node)
        for nodes in (self.members, self._retiring, self._leaving, self._giving_up):
            nodes.discard(node)
        self.meeting.forget(node)

    # -- the end of the work ----------------------------------------------------------------

    def finished(self, node: int, generation: int) -> None:
        """Record that all workers of a node have ended with code 0 in a round.

        The job is done once that is so on every node of the round. Until then a failure or a loss
        leads to another round, in which this node takes part.
        """
        if generation != self.generation or node not in self._nodes.running:
            return
        self._finish(node)

    def done(self, node: int) -> bool:
        """Record that a node has ended by itself; return whether the job goes on.

        It takes part no more, so from now on no failure is survived. But other members may have
        failed just before, and be waiting for it.
        """
        if node in self._leaving:
            return self.left(node)
        self._ending = True
        self._forget(node)
        self._finish(node)
        waits = not self.over and bool(self._nodes.ready & self.members)
        if waits and self.alive < self._limits.least:
            return False
        if waits:
            self.look()
        return True

    def _finish(self, node: int) -> None:
        """End the job if the work of this node was the last of the round."""
        if not self._present.finished:
            self._failures.doubt(self._loop.clock() - self._present.began)
        self._present.finished |= {node} & self._present.nodes
        if self._present.complete and not self.over:
            self.over = True
            self._do(Finish())

    # -- failures ---------------------------------------------------------------------------

    def failed(self, what: str, code: int, node: int | None, *, final: bool = False) -> bool:
        """Record a worker's failure, or one of no node; return whether the job goes on.

        One counts in a round: what fails while it ends anyway may well have failed because of that.
        There is no other round after a `final` one.
        """
        if self._present.phase is RoundPhase.ENDING:
            return True
        lasted = self._loop.clock() - self._present.began
        done = final or self._ending or self._closed
        if done or not self._failures.survive(what, code, lasted):
            return False
        self._present.failed = True
        if node is not None and self._failures.blame(node, self._nodes):
            self._loop.call_later(self._limits.cool, self._consider)
        self._change(but=node)
        return True

    def decide(self, seconds: float, decided: Callable[[bool], None]) -> None:
        """Call `decided` for a failure that is not survived: was it the loss of a node?

        If it may have been, that is known after `seconds`, and no round is formed until then.
        Nothing is called once the job is being stopped.
        """

        def known() -> None:
            if not self._closed:
                decided(self._present.shrunk)
                self.look()

        enough = self.alive > self._limits.least or self._limits.wait > 0
        if enough and len(self.members) > 1 and not self._ending:
            self._present.await_losses(self._loop, seconds, known)
        else:
            decided(False)

    def hold(self, seconds: float) -> None:
        """Form no round for so long, whatever happens."""
        self._held = max(self._held, self._loop.clock() + seconds)

    def _shrink(self) -> None:
        """Count nothing for a failure that the loss of a node has caused."""
        if self._present.failed and not self._present.shrunk:
            self._failures.take_back()
        self._present.shrunk = True

    # -- changes ----------------------------------------------------------------------------

    def _consider(self) -> None:
        """Begin a change that can wait, if the next round would be another one.

        A round in which a node has finished is not changed any more for that.
        """
        present = self._present
        if self._ending or self._closed or not self._nodes.running or present.finished:
            return
        if present.phase is not RoundPhase.RUNNING:
            return
        chosen = set(self._choose())
        if chosen == self.members:
            return
        if self.members < chosen and self.gain.left:
            self.gain.wait(len(chosen))
        elif self._limits.notice:
            self._notify()
        else:
            self._change()

    def _notify(self) -> None:
        present = self._present
        present.phase = RoundPhase.NOTICED

        def due() -> None:
            """Change the round, unless something else has ended it by now."""
            if self._present is present and present.phase is RoundPhase.NOTICED:
                present.phase = RoundPhase.RUNNING
                if set(self._choose()) != self.members and not present.finished:
                    self._change()

        self._do(Notify(tuple(sorted(self._nodes.running))))
        self._loop.call_later(self._limits.notice, due)

    def _change(self, but: int | None = None) -> None:
        """Call the nodes that still run to leave the round, except one that leaves by itself."""
        if self._present.phase is RoundPhase.ENDING:
            return
        self._present.phase = RoundPhase.ENDING
        self._let_go()
        nodes = tuple(sorted(self._nodes.running - {but}))
        if nodes:
            self._do(Change(nodes))
        seconds = self._limits.patience
        why = f"it did not stop its workers within {seconds:g} s"
        self._watch(seconds, self._nodes.running, why)

    def _let_go(self) -> None:
        """Release nodes that are not to be in the next round, which waits until they have ended."""
        ending = self._present.phase is RoundPhase.ENDING
        for node in sorted(self._retiring if ending else self._retiring - self.members):
            self._forget(node)
            self._leaving.add(node)
            self._do(Release(node))

    def _watch(self, seconds: float, nodes: AbstractSet[int], why: str) -> None:
        """Give up the nodes that are left of some, if there is no other round by then."""

        def late() -> None:
            if not self._ending:
                self._give_up(dict.fromkeys(sorted(nodes), why))

        self._present.watch(self._loop, seconds, late)

    def _give_up(
        self, reasons: Mapping[int, str], for_good: AbstractSet[int] = frozenset()
    ) -> None:
        """Give up nodes; the next round is looked for once none of them is left."""
        self._giving_up |= reasons.keys()
        for node, reason in reasons.items():
            self._do(GiveUp(node, reason, node in for_good))

    # -- the next round ---------------------------------------------------------------------

    def look(self) -> None:
        """Form the next round if it is time for it."""
        nodes = self._nodes
        if self._closed or nodes.running or self._giving_up or not nodes:
            return
        if self._leaving & self._present.nodes or self._present.undecided or self.meeting.pending:
            return
        wait = max(self._failures.not_before, self._held) - self._loop.clock()
        if self._nodes.late and not self.members:
            self._await_late()
        elif wait > 0:
            self._loop.call_later(wait, self.look)
        else:
            self._form()

    def _form(self) -> None:
        members = self.meeting.members or self._choose()
        # Nodes that are done count as well.
        if not members or (len(members) < self._limits.least and not self._ending):
            self._await_more()
        elif self._table.may_begin(members):
            address = self.meeting.find(members, self.members)
            if address:
                self._begin(members, address)

    def _begin(self, members: Sequence[int], address: str) -> None:
        self._shortage.end()
        self.generation += 1
        self.members = set(members)
        self._nodes.begin(self.members)
        self.meeting.cancel()
        self._present.end()
        self._present = PresentRound(members, self._loop.clock())
        self.gain.begin()
        self._do(Form(tuple(members), address, self.restarts))
        if self._nodes.ready:
            self._consider()

    def _choose(self) -> list[int]:
        """Return the next round of those that are ready or running."""
        there = (self._nodes.ready | self._nodes.running) - self._retiring
        free = there - self._failures.excluded
        enough = len(free) >= self._limits.least
        return select(free if enough else there, self.members, self._most, self._table)

    # -- what it waits for ------------------------------------------------------------------

    def _await_more(self) -> None:
        """Wait for nodes that are there, then for others, with too few for a round."""
        if self._nodes.late:
            self._await_late()
        elif not self._shortage.wait(len(self._choose())):
            self._do(TooFew())

    def _await_late(self) -> None:
        """Wait for nodes that were in no round, but not for ever."""
        if not self._present.watched:
            self._present.watched = True
            why = f"it was not ready for a round within {NEWCOMERS:g} s"
            self._watch(NEWCOMERS, self._nodes.late, why)

    def _end_wait(self) -> None:
        """Give up, unless there are enough nodes by now for a round that may not begin yet."""
        if self.alive < self._limits.least:
            self._do(TooFew())
        else:
            self.look()
