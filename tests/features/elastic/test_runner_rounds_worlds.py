"""The rounds of an elastic job, whatever happens: they are sound, and nobody waits for ever."""

from __future__ import annotations

import random
from typing import Any

import pytest

from dsrun.launcher.features.elastic.runner_failures import LONGEST
from dsrun.launcher.features.elastic.runner_master_selection import PROBE
from dsrun.launcher.features.elastic.runner_rounds import NEWCOMERS

from ...support.elastic_rounds import Job

PATIENCE = 40.0
GAIN = 60.0
NOTICE = 10.0


class World(Job):
    """Nodes to which anything may happen, and what must hold of their rounds all the same.

    Attributes:
        here: the nodes that are alive.
        joined: those of them that wait for a round.
        round: the nodes of the present round that are alive and have not been released.
        whole: all nodes that it had.
        done_well: those of them whose workers have ended well.
        wanted: those that were told to leave it.
        failing: the node whose failure was counted in it, which leaves it by itself.
        failing_too: the nodes whose failures were not, and which leave it by themselves.
        shrunk: it has lost a node.
        over: nothing more can come.
    """

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.nodes = chance.randint(1, 7)
        self.least = min(chance.randint(1, 4), self.nodes)
        self.top = chance.randint(self.least, self.nodes + 1)
        limits: dict[str, Any] = {
            "patience": PATIENCE,
            "gain_delay": chance.choice([0.0, GAIN]),
            "notice": chance.choice([0.0, NOTICE]),
            "wait": chance.choice([0.0, 100.0]),
        }
        super().__init__(self.nodes, self.least, self.top, chance.randint(0, 20), **limits)
        self.here = set(range(self.nodes))
        self.joined: set[int] = set()
        self.round: set[int] = set()
        self.whole: set[int] = set()
        self.done_well: set[int] = set()
        self.wanted: set[int] = set()
        self.failing: int | None = None
        self.failing_too: set[int] = set()
        self.shrunk = self.over = False

    # -- what the rounds want done --------------------------------------------------------------

    def form(self, members: tuple[int, ...], address: str, restarts: int) -> None:
        """Hold a round against all that is promised."""
        super().form(members, address, restarts)
        assert list(members) == sorted(members)
        assert set(members) <= self.joined, "a node that is not ready"
        assert self.round <= self.joined, "a member that still works, in two rounds"
        assert not set(self.released) & self.round
        assert self.least <= len(members) <= self.rounds._most
        assert restarts == self.rounds.restarts <= self.limits.restarts
        assert self.shrunk or not self.failing_too, "after the failure that ends the job"
        self.round, self.whole = set(members), set(members)
        self.joined -= self.round
        self.done_well, self.wanted, self.failing = set(), set(), None
        self.failing_too, self.shrunk = set(), False

    def release(self, node: int) -> None:
        self.forget(node)
        super().release(node)

    def stop_round(self, nodes: tuple[int, ...]) -> None:
        super().stop_round(nodes)
        assert not self.wanted, "called twice in a round"
        self.wanted = set(nodes)
        assert self.wanted == self.round - self.joined - {self.failing}

    def lose_one(self, node: int, reason: str) -> None:
        self.shrunk |= node in self.round
        self.forget(node)
        super().lose_one(node, reason)
        self.over |= not self.survives

    def forget(self, node: int) -> None:
        for nodes in (self.here, self.joined, self.round):
            nodes.discard(node)

    def stop_too_few(self) -> None:
        assert len(self.here) < self.least
        super().stop_too_few()
        self.over = True

    # -- what happens ---------------------------------------------------------------------------

    def step(self) -> None:
        """Let one thing happen, and look at what came of it."""
        acts = (
            *[self.come] * 20,
            *[self.work] * 4,
            *[self.arrive_again] * 2,
            *(self.lose_some_node, self.shut_up, self.limit, self.remove, self.pass_time),
        )
        self.chance.choice(acts)()
        self.clock.settle()
        if not self.over:
            self.verify()

    def come(self) -> None:
        """A node gets ready: it has started, or it was told to leave its round."""
        late = self.here - self.joined
        able = late - self.round | (late & (self.wanted | self.failing_too | {self.failing}))
        if able:
            node = self.chance.choice(sorted(able))
            self.joined.add(node)
            self.join(node)

    def work(self) -> None:
        """A worker prints something, fails or ends well."""
        able = self.working - self.done_well
        if not able:
            return
        node = self.chance.choice(sorted(able))
        self.chance.choice((self.finish_one, self.fail, self.fail, self.print_one))(node)

    def finish_one(self, node: int) -> None:
        self.done_well.add(node)
        self.finishes(node)
        assert self.ended == (self.done_well == self.whole)
        self.over |= self.ended

    def print_one(self, _node: int) -> None:
        self.print()

    def fail(self, node: int) -> None:
        before, ending = self.rounds.restarts, bool(self.wanted) or self.failing is not None
        self.failing = self.failing if ending else node
        if self.failed(f"node {node}", 1, node):
            assert self.rounds.restarts == before + (not ending)
        else:
            assert before == self.limits.restarts
            self.failing = None
            self.failing_too.add(node)

    def decide(self, *, lost: bool) -> None:
        assert lost == self.shrunk
        if not lost:
            self.over = True
            self.close()

    def lose_some_node(self) -> None:
        spare = len(self.here) > self.least or self.limits.wait or self.chance.random() < 0.1
        if self.here and spare:
            node = self.chance.choice(sorted(self.here))
            self.shrunk |= node in self.round
            self.forget(node)
            goes_on = self.leave(node)
            assert goes_on or len(self.here) < self.least
            self.over |= not goes_on

    def arrive_again(self) -> None:
        """A node that is lost or was removed is back, not ready yet."""
        gone = set(range(self.nodes)) - self.here - set(self.for_good)
        gone = {node for node in gone if not self.rounds.is_leaving(node)}
        if gone:
            node = self.chance.choice(sorted(gone))
            assert self.came(node)
            self.here.add(node)
            self.released = [one for one in self.released if one != node]

    def shut_up(self) -> None:
        """From now on a node answers no probe, or does so again; or there is a wall."""
        node, other = (self.chance.randrange(self.nodes) for _ in range(2))
        self.silent ^= {node}
        if node != other:
            self.walls ^= {frozenset((node, other))}

    def limit(self) -> None:
        self.resize(self.chance.randint(self.least, self.top))

    def remove(self) -> None:
        if self.here:
            self.retire(self.chance.choice(sorted(self.here)))

    def pass_time(self) -> None:
        """Time passes, and what was released has ended after it."""
        self.go(self.chance.choice([1.0, PROBE, NOTICE, GAIN]))
        for node in set(self.released):
            if self.rounds.is_leaving(node) and not self.over:
                assert self.done(node) or len(self.here) < self.least
                self.over |= len(self.here) < self.least and not self.limits.wait

    # -- what must hold -------------------------------------------------------------------------

    def verify(self) -> None:
        assert self.rounds.generation == len(self.formed)
        assert self.rounds.members == self.round
        assert self.rounds.alive == len(self.here)
        ready = self.round & self.joined or self.whole - self.here
        if ready and self.done_well != self.whole:
            assert not self.working, "others wait for it"

    def drain(self) -> None:
        """Let everybody do as told: a round must be formed, or the job be over."""
        self.silent, self.walls = set(), set()
        formed = len(self.formed)
        for _ in range(3):
            while not self.over and self.here - self.joined - self.working:
                self.come()
                self.clock.settle()
            if not self.over:
                self.go(max(LONGEST, PATIENCE, GAIN, NEWCOMERS, 100.0))
                self.pass_time()
        assert self.over or self.working or len(self.formed) > formed, "all wait for ever"

    @property
    def working(self) -> set[int]:
        """The members whose workers run, and are to go on."""
        return self.round - self.joined - self.wanted - self.failing_too - {self.failing}


@pytest.mark.parametrize("seed", range(20))
def test_whatever_happens_rounds_are_sound_and_nobody_waits_for_ever(seed: int) -> None:
    chance = random.Random(seed)
    rounds = probes = 0
    for _ in range(50):
        world = World(chance)
        for _ in range(chance.randint(5, 150)):
            if not world.over:
                world.step()
        if not world.over:
            world.drain()
        rounds += len(world.formed)
        probes += len(world.probed)
    assert (rounds > 100, probes > 20) == (True, True), "the worlds were too dull to tell"
