"""The rounds of an elastic job, as the runner forms them: who takes part, and in which order.

Membership is decided here and nowhere else, so ranks are dense, in the hosts' order, and the same
on every node. A round is formed when every node that is alive is ready for it: torch's agents come
by themselves after a failure, and are called where something has changed.
"""

from __future__ import annotations

from ...common.wording import counted
from .excluded_nodes import FAILURES, WINDOW, ExcludedNodes
from .restart_budget import RestartBudget
from .round_actions import Change, Form, GiveUp, Notify, Release, Say, TooFew

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ...common.loop import Loop, Timer
    from ...specs.elastic_policy import ElasticPolicy
    from .round_actions import RoundAction

NEWCOMERS = 120.0
"""Seconds for which all others wait for a node that has not been ready yet."""


class Present:
    """What has happened to the round that there is now.

    Attributes:
        failed: a failure was counted.
        noticed: its nodes know that they will have to leave it.
        told: they were called to leave it.
        broken: it is watched whether its nodes get ready for another one.
        patient: so it is with nodes that were in none.
    """

    def __init__(self) -> None:
        self.failed = self.noticed = self.told = self.broken = self.patient = False


class Rounds:
    """The course of one job's rounds.

    Attributes:
        generation: the number of the present round, from 1 on.
        members: the nodes in it.
    """

    def __init__(
        self,
        nodes: int,
        limits: ElasticPolicy,
        loop: Loop,
        act: Callable[[RoundAction], None],
        fits: Callable[[Sequence[int]], bool],
        name: Callable[[int], str],
    ) -> None:
        """Wait for so many nodes; times are those of `loop`.

        Args:
            nodes: numbered from 0 on.
            limits: how far the job may shrink, grow and fail.
            loop: what waits are measured on.
            act: does what is to be done.
            fits: tells whether a round of these nodes is allowed.
            name: returns what the user calls a node.
        """
        self._limits = limits
        self._loop = loop
        self._act = act
        self._fits = fits
        self._name = name
        self._most = limits.most
        self._budget = RestartBudget(limits, loop.clock)
        self._excluded = ExcludedNodes(limits.cool, loop.clock)
        self._began = self._not_before = self._held = 0.0
        self._alive = set(range(nodes))
        self._ports: dict[int, int] = {}
        self._retiring: set[int] = set()
        self._leaving: set[int] = set()
        self._finished = self._closed = False
        self._present = Present()
        self._shrunk = -1
        self._waiting: Timer | None = None
        self.generation = 0
        self.members: list[int] = []

    @property
    def restarts(self) -> int:
        """How many failures were survived."""
        return self._budget.restarts

    @property
    def there(self) -> int:
        """How many nodes are there, in a round or not."""
        return len(self._alive)

    # -- nodes come and go ------------------------------------------------------------------

    def joined(self, node: int, port: int) -> None:
        """Take in that a node is ready; whoever still runs is called where that changes a round."""
        self._ports[node] = port
        if node in self.members:
            self._change()
        else:
            self._consider()
        self._look()

    def came(self, node: int) -> bool:
        """Take in that a node is there, or there again, and tell whether it is of use."""
        if not self._finished and not self._closed:
            self._alive.add(node)
        return node in self._alive

    def left(self, node: int) -> bool:
        """Take in that a node is gone, and tell whether the job goes on without it."""
        was_in = node in self.members
        self._forget(node)
        if self._finished:
            return False
        if was_in:
            self.members.remove(node)
            self._shrink()
        if len(self._alive) < self._limits.least and not self._wait():
            return False
        if was_in:
            self._change()
        self._look()
        return True

    def retire(self, node: int) -> bool:
        """Have a node leave for good, and tell whether the job can do without it."""
        rest = self._alive - self._retiring - {node}
        if node not in self._alive or len(rest) < self._limits.least or self._finished:
            return False
        self._retiring.add(node)
        if node in self.members:
            self._consider()
        else:
            self._let_go()
        return True

    def resize(self, most: int) -> None:
        """Have at most so many nodes in a round from now on."""
        self._most = most
        self._consider()

    def done(self, node: int) -> bool:
        """Take in that a node's workers have ended well, and tell whether the job goes on.

        It takes part no more, and from here on no failure is survived: a part of the work is done.
        But the other members may have failed just before, and be waiting for it.
        """
        if node in self._leaving:
            return self.left(node)
        self._doubt()
        self._finished = True
        self._forget(node)
        waiting = self._ports.keys() & set(self.members)
        if waiting and len(self._alive) < self._limits.least:
            return False
        if waiting:
            self._look()
        return True

    def _doubt(self) -> None:
        """Say so where the work was done suspiciously soon: nothing else would show it."""
        lasted, uptime = self._loop.clock() - self._began, self._limits.uptime
        if lasted < uptime and not self._finished:
            text = f"workers ended with code 0 after {lasted:.1f} s, sooner than --min_uptime"
            self._act(Say(f"{text} {uptime:g}: was there nothing to do?"))

    def is_leaving(self, node: int) -> bool:
        """Tell whether a node has been let go, and has not ended yet."""
        return node in self._leaving

    def close(self) -> None:
        """Form no other round: the job is being stopped."""
        self._closed = True
        self._alive.clear()

    def port(self, node: int) -> int:
        """Return where the store of a node's agent is."""
        return self._ports[node]

    def _forget(self, node: int) -> None:
        for nodes in (self._alive, self._retiring, self._leaving):
            nodes.discard(node)
        self._ports.pop(node, None)

    # -- failures ---------------------------------------------------------------------------

    def failed(self, what: str, code: int, node: int) -> bool:
        """Take in a worker's failure, and tell whether the job goes on; one counts in a round.

        What fails while a round is broken up anyway may well have failed of that.
        """
        if self._present.told or self._present.failed:
            return True
        lasted = self._loop.clock() - self._began
        if self._finished or self._closed or not self._budget.spend(code, lasted):
            return False
        self._present.failed = True
        delay = self._budget.delay
        self._not_before = self._loop.clock() + delay
        wait = f"; waiting {delay:g} s" if delay else ""
        self._act(Say(f"restart {self._budget.count}: {what}{wait}"))
        self._blame(node)
        self._breaks()
        return True

    def may_be_loss(self) -> bool:
        """Tell whether the loss of a node may be what a failure came of, and would be survived."""
        enough = len(self._alive) > self._limits.least or self._limits.wait > 0
        return enough and len(self.members) > 1 and not self._finished

    def hold(self, seconds: float) -> None:
        """Form no round for so long, whatever happens."""
        self._held = max(self._held, self._loop.clock() + seconds)

    def shrunk(self, generation: int) -> bool:
        """Tell whether that round has lost a node."""
        return self._shrunk == generation

    def _blame(self, node: int) -> None:
        """Go on without a node that alone fails again and again, if the others are enough."""
        name = self._name(node)
        for other in self._excluded.blame(node):
            back = self._name(other)
            self._act(Say(f"a failure began on {name}, too: {back} is not put aside any more"))
        others = self._alive - self._excluded.aside() - {node}
        if self._excluded.is_bad(node) and len(others) >= self._limits.least:
            self._excluded.put_aside(node)
            cool = self._limits.cool
            why = f"{FAILURES} failures within {WINDOW / 60:g} minutes began on {name}"
            self._act(Say(f"{why}, and none elsewhere: going on without it for {cool:g} s"))
            self._loop.call_later(cool, self._consider)

    def _shrink(self) -> None:
        """Count nothing for a failure that the loss of a node has brought with it."""
        if self._present.failed and not self.shrunk(self.generation):
            self._budget.refund()
            self._excluded.excuse()
            self._not_before = 0.0
            self._act(Say("that restart is not counted: a node was lost"))
        self._shrunk = self.generation

    # -- changes ----------------------------------------------------------------------------

    def _running(self) -> list[int]:
        return [node for node in self.members if node in self._alive and node not in self._ports]

    def _consider(self) -> None:
        """Begin a change that can wait, if the next round would be another one."""
        if self._finished or self._closed or self._present.told or self._present.noticed:
            return
        if not self._running() or self._choose() == self.members:
            return
        if not self._limits.notice:
            self._change()
            return
        self._present.noticed = True
        self._act(Notify(tuple(self._running())))
        now = self.generation
        self._loop.call_later(self._limits.notice, lambda: self._is_due(now))

    def _is_due(self, generation: int) -> None:
        """Change a round that was told of it, unless something else has ended it by now."""
        if generation == self.generation:
            self._present.noticed = False
            if self._choose() != self.members:
                self._change()

    def _change(self) -> None:
        """Call those that run, once a round."""
        if self._present.told or not self._running():
            return
        self._present.told = True
        self._let_go()
        if self._running():
            self._act(Change(tuple(self._running())))
        self._breaks()

    def _let_go(self) -> None:
        """Have those end that are not to be in the next round, which waits until they have."""
        spares = self._retiring - set(self.members)
        going = self._retiring if self._present.told else spares
        self._retiring = self._retiring - going
        for node in going:
            self._forget(node)
            self._leaving.add(node)
            self._act(Release(node))
        self.members = [node for node in self.members if node not in going]

    def _breaks(self) -> None:
        """See to it that nobody waits for ever for a node that does not get ready any more."""
        if not self._present.broken:
            self._present.broken, now = True, self.generation
            self._loop.call_later(self._limits.patience, lambda: self._lose_late(now))

    def _lose_late(self, generation: int) -> None:
        if generation == self.generation and not self._finished:
            for node in self._running():
                self._act(GiveUp(node, "torch's agent there does not stop its workers"))

    # -- the next round ---------------------------------------------------------------------

    def _wait(self) -> bool:
        """Wait for more nodes, and tell whether there is any time for that."""
        if self._limits.wait and self._waiting is None:
            have, least, wait = len(self._choose()), self._limits.least, self._limits.wait
            text = f"{counted(have, 'node')} left for a round of at least {least}"
            self._act(Say(f"{text}: waiting {wait:g} s for more"))
            self._waiting = self._loop.call_later(wait, lambda: self._act(TooFew()))
        return self._waiting is not None

    def _choose(self) -> list[int]:
        """Return the next round of those that are ready or running: present members first."""
        there = self._alive & (self._ports.keys() | set(self.members)) - self._retiring
        fresh = there - self._excluded.aside()
        free = fresh if len(fresh) >= self._limits.least else there
        order = sorted(free, key=lambda node: (node not in self.members, node))
        chosen = order[: self._most]
        while chosen and not self._fits(sorted(chosen)):
            chosen.pop()
        return sorted(chosen)

    def _look(self) -> None:
        """Form the next round if it is time for it."""
        if self._closed or not self._alive or self._leaving:
            return
        late = self._alive - self._ports.keys()
        if late:
            self._wait_for(late)
            return
        wait = max(self._not_before, self._held) - self._loop.clock()
        if wait > 0:
            self._loop.call_later(wait, self._look)
            return
        self._form()

    def _wait_for(self, late: set[int]) -> None:
        """Wait for nodes that were never in a round, but not for ever."""
        if not late & set(self.members) and not self._present.patient:
            self._present.patient, now = True, self.generation
            self._loop.call_later(NEWCOMERS, lambda: self._lose_newcomers(now))

    def _lose_newcomers(self, generation: int) -> None:
        if generation == self.generation and not self._running():
            for node in sorted(self._alive - self._ports.keys()):
                self._act(GiveUp(node, "torch's agent there does not get ready"))

    def _form(self) -> None:
        members = self._choose()
        # Nodes whose part of the work is done count as well.
        if not members or (len(members) < self._limits.least and not self._finished):
            if not self._wait():
                self._act(TooFew())
            return
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None
        self._began = self._loop.clock()
        self.members = members
        self.generation += 1
        self._present = Present()
        self._act(Form(tuple(members), self.restarts))
        for node in members:
            self._ports.pop(node)
