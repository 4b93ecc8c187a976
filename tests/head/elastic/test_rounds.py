"""The rounds of an elastic job: who takes part, who is called, and when it is over."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from dsrun.launcher.head.elastic.restart_budget import LONGEST
from dsrun.launcher.head.elastic.rounds import NEWCOMERS

if TYPE_CHECKING:
    pass
from ...support.elastic_rounds import Job, running

# -- the first round ----------------------------------------------------------------------------


def test_the_first_round_waits_for_all() -> None:
    job = Job(3)
    job.join(0, 1)
    assert not job.formed
    job.join(2)
    assert (job.formed, job.needed, job.rounds.generation) == ([[0, 1, 2]], [0], 1)
    assert not job.called


def test_ranks_follow_the_hosts_not_who_came_first() -> None:
    job = Job(4)
    job.join(2, 0, 3, 1)
    assert job.formed == [[0, 1, 2, 3]]


def test_a_node_lost_before_the_first_round_is_not_waited_for() -> None:
    job = Job(3)
    job.join(0, 2)
    assert job.rounds.left(1)
    assert job.formed == [[0, 2]]
    assert not job.called


def test_the_store_of_the_first_is_known_while_a_round_is_formed() -> None:
    class Asking(Job):
        ports: tuple[int, ...] = ()

        def form(self, members: list[int], restarts: int) -> None:
            super().form(members, restarts)
            self.ports = tuple(map(self.rounds.port, members))

    job = Asking(2)
    job.join(1, 0)
    assert job.ports == (1000, 1001)


# -- failures -----------------------------------------------------------------------------------


def test_after_a_failure_all_others_are_called_once_and_meet_again() -> None:
    job = running(3)
    assert job.rounds.failed("rank 1 exited 3", 1, 0)
    job.join(1)
    assert job.called == [[0, 2]]
    job.join(2)
    assert len(job.formed) == 1
    job.join(0)
    assert (job.formed[1:], job.called, job.needed) == ([[0, 1, 2]], [[0, 2]], [0, 1])


def test_every_round_can_be_called_anew() -> None:
    job = running(2)
    job.join(1, 0)
    job.join(0, 1)
    assert job.called == [[0], [1]]
    assert job.rounds.generation == 3


def test_failures_in_one_round_count_once() -> None:
    job = running(3, restarts=1)
    assert all(job.rounds.failed(f"rank {rank} exited 1", 1, 0) for rank in (2, 0, 1))
    assert job.rounds.restarts == 1
    assert job.said == ["restart 1/1: rank 2 exited 1"]


def test_a_job_fails_for_good_when_its_restarts_are_used_up() -> None:
    job = running(2, restarts=2)
    for _ in range(2):
        assert job.rounds.failed("rank 0 exited 1", 1, 0)
        job.join(0, 1)
        job.clock.go(1)
    assert not job.rounds.failed("rank 0 exited 1", 1, 0)
    assert (job.rounds.restarts, len(job.said)) == (2, 2)


def test_without_restarts_the_first_failure_is_the_last() -> None:
    job = running(2, restarts=0)
    assert not job.rounds.failed("rank 0 exited 1", 1, 0)
    assert not job.said


# -- nodes that are lost ------------------------------------------------------------------------


def test_survivors_are_called_once_and_go_on_without_the_lost_node() -> None:
    job = running(4)
    assert job.rounds.left(1)
    assert job.called == [[0, 2, 3]]
    job.join(3, 0, 2)
    assert (job.formed[1:], job.called) == ([[0, 2, 3]], [[0, 2, 3]])


def test_a_lost_node_needs_no_restart() -> None:
    job = running(3, restarts=0)
    job.rounds.left(2)
    job.join(0, 1)
    assert job.needed == [0, 0]


def test_two_nodes_lost_at_once_are_one_change() -> None:
    job = running(4)
    assert job.rounds.left(0)
    assert job.rounds.left(3)
    job.join(1, 2)
    assert (job.called, job.formed[1:]) == ([[1, 2, 3]], [[1, 2]])


def test_the_last_that_was_waited_for_is_lost() -> None:
    job = running(3)
    job.join(0, 2)
    assert job.rounds.left(1)
    assert job.formed[1:] == [[0, 2]]


def test_a_node_lost_while_it_waits_takes_no_part() -> None:
    job = running(3)
    job.join(1)
    assert job.rounds.left(1)
    job.join(0, 2)
    assert job.formed[1:] == [[0, 2]]


def test_below_the_least_the_job_is_over() -> None:
    job = running(3, least=2)
    assert job.rounds.left(0)
    assert not job.rounds.left(1)
    job = running(3, least=3)
    assert not job.rounds.left(2)
    assert not job.called


# -- spares -------------------------------------------------------------------------------------


def test_nodes_beyond_the_most_are_spares() -> None:
    job = Job(4, most=2)
    job.join(3, 2, 1, 0)
    assert job.formed == [[0, 1]]
    assert not job.called


def test_a_failure_does_not_call_spares() -> None:
    job = running(3, most=2)
    job.join(1, 0)
    assert (job.called, job.formed[1:]) == ([[0]], [[0, 1]])


def test_a_spare_takes_over_from_a_lost_member() -> None:
    job = running(4, least=2, most=2)
    assert job.rounds.left(0)
    assert job.called == [[1]]
    job.join(1)
    assert job.formed[1:] == [[1, 2]]
    assert job.rounds.left(2)
    job.join(1)
    assert job.formed[2:] == [[1, 3]]
    assert not job.rounds.left(3)


def test_spares_take_over_from_all_members() -> None:
    job = running(4, most=2)
    assert job.rounds.left(0)
    assert job.rounds.left(1)
    assert (job.called, job.formed[1:]) == ([[1]], [[2, 3]])


def test_a_lost_spare_changes_nothing() -> None:
    job = running(3, most=2)
    assert job.rounds.left(2)
    assert not job.called
    assert len(job.formed) == 1
    job.join(0, 1)
    assert job.formed[1:] == [[0, 1]]


def test_nothing_is_formed_once_the_job_is_stopped() -> None:
    job = running(2)
    job.rounds.close()
    job.join(0, 1)
    assert len(job.formed) == 1


# -- nodes that are done ------------------------------------------------------------------------


def test_a_node_that_is_done_is_neither_called_nor_waited_for() -> None:
    job = running(3)
    job.rounds.done(0)
    assert not job.called
    job.join(2)
    assert job.called == [[1]]
    job.join(1)
    assert job.formed[1:] == [[1, 2]]


def test_a_node_that_is_done_before_its_call_arrives_is_not_waited_for() -> None:
    job = running(3)
    job.join(1, 2)
    assert job.called == [[0, 2]]
    job.rounds.done(0)
    assert job.formed[1:] == [[1, 2]]


def test_nothing_is_survived_once_a_part_of_the_work_is_done() -> None:
    job = running(3)
    assert job.rounds.done(0)
    assert not job.rounds.failed("rank 1", 1, 0)
    assert not job.rounds.left(2)
    assert job.rounds.restarts == 0


def test_the_end_of_one_leaves_the_others_too_few() -> None:
    job = running(2, least=2)
    job.join(1)
    assert not job.rounds.done(0)
    assert len(job.formed) == 1


def test_what_is_done_at_once_is_told_of() -> None:
    job = running(2, uptime=5.0)
    job.clock.go(1)
    job.rounds.done(0)
    job.rounds.done(1)
    words = "workers ended with code 0 after 1.0 s, sooner than --min_uptime 5"
    assert job.said == [f"{words}: was there nothing to do?"]
    job = running(1, uptime=5.0)
    job.clock.go(6)
    job.rounds.done(0)
    assert not job.said


def test_members_that_are_done_leave_nothing_to_their_spares() -> None:
    job = running(3, most=2)
    job.rounds.done(1)
    job.rounds.done(0)
    assert len(job.formed) == 1
    assert not job.called


# -- too few nodes --------------------------------------------------------------------------------


def test_too_few_nodes_wait_for_more() -> None:
    job = running(3, least=2, wait=30.0)
    assert job.rounds.left(0)
    job.join(1, 2)
    assert job.rounds.left(1)
    assert job.said == ["1 node left for a round of at least 2: waiting 30 s for more"]
    job.join(2)
    job.clock.go(29)
    job.arrive(0)
    assert job.formed[2:] == [[0, 2]]
    job.clock.go(60)
    assert not job.short


def test_too_few_nodes_for_too_long_are_the_end() -> None:
    job = running(2, least=2, wait=30.0)
    assert job.rounds.left(1)
    assert job.called == [[0]], "nobody works while there are too few"
    job.join(0)
    job.clock.go(29)
    assert not job.short
    job.clock.go(1)
    assert job.short


def test_even_without_any_node_the_job_waits() -> None:
    job = running(1, wait=30.0)
    assert job.rounds.left(0)
    job.arrive(0)
    assert job.formed == [[0], [0]]


# -- nodes that come ------------------------------------------------------------------------------


def test_a_node_that_comes_is_in_the_next_round_at_once() -> None:
    job = running(2)
    job.arrive(2)
    assert job.called == [[0, 1]]
    job.join(0, 1)
    assert (job.formed[1:], job.rounds.restarts) == ([[0, 1, 2]], 0)


def test_a_node_that_comes_to_a_full_round_is_a_spare() -> None:
    job = running(3, most=2)
    assert job.rounds.left(0)
    job.join(1)
    assert job.formed[1:] == [[1, 2]]
    job.arrive(0)
    assert (job.called, len(job.formed)) == ([[1]], 2)
    job.rounds.left(2)
    job.join(1)
    assert job.formed[2:] == [[0, 1]]


def test_a_change_that_can_wait_is_told_before() -> None:
    job = running(2, notice=30.0)
    job.arrive(2)
    assert (job.noticed, job.called) == ([[0, 1]], [])
    job.clock.go(29)
    job.arrive(3)
    assert len(job.noticed) == 1
    assert not job.called
    job.clock.go(1)
    assert job.called == [[0, 1]]
    job.join(0, 1)
    assert job.formed[1:] == [[0, 1, 2, 3]]


def test_a_loss_does_not_wait_for_the_end_of_a_notice() -> None:
    job = running(3, notice=30.0)
    job.arrive(3)
    job.rounds.left(0)
    assert job.called == [[1, 2]]
    job.join(1, 2)
    assert job.formed[1:] == [[1, 2, 3]]
    job.clock.go(60)
    assert len(job.called) == 1, "the notice was for a round that is over"


def test_a_node_that_comes_and_goes_again_changes_nothing() -> None:
    job = running(2, notice=30.0)
    job.arrive(2)
    job.rounds.left(2)
    job.clock.go(30)
    assert not job.called


# -- nodes that are let go ------------------------------------------------------------------------


def test_a_member_is_let_go_before_the_next_round() -> None:
    job = running(3)
    assert job.rounds.retire(1)
    assert (job.released, job.called) == ([1], [[0, 2]])
    job.join(0, 2)
    assert len(job.formed) == 1, "its workers may still run"
    assert job.rounds.done(1)
    assert (job.formed[1:], job.rounds.restarts) == ([[0, 2]], 0)


def test_all_are_told_before_a_member_is_let_go() -> None:
    job = running(3, notice=30.0)
    assert job.rounds.retire(1)
    assert (job.noticed, job.released) == ([[0, 1, 2]], [])
    job.clock.go(30)
    assert (job.released, job.called) == ([1], [[0, 2]])


def test_a_spare_is_let_go_at_once() -> None:
    job = running(3, most=2)
    assert job.rounds.retire(2)
    assert (job.released, job.called) == ([2], [])
    assert job.rounds.done(2)
    assert job.rounds.failed("rank 0 exited 1", 1, 0), "nothing of the work is done"


def test_nobody_is_let_go_of_the_last_that_are_needed() -> None:
    job = running(3, least=2)
    assert job.rounds.retire(0)
    assert not job.rounds.retire(1)


def test_a_smaller_job_makes_spares_and_a_larger_one_takes_them_in() -> None:
    job = running(4)
    job.rounds.resize(2)
    assert job.called == [[0, 1, 2, 3]]
    job.join(0, 1, 2, 3)
    assert job.formed[1:] == [[0, 1]]
    job.rounds.resize(3)
    assert job.called[1:] == [[0, 1]]
    job.join(0, 1)
    assert job.formed[2:] == [[0, 1, 2]]


def test_another_size_that_changes_nothing_calls_nobody() -> None:
    job = running(2)
    job.rounds.resize(7)
    assert not job.called


# -- sizes that a plan allows ---------------------------------------------------------------------


def test_a_round_has_a_size_that_is_allowed() -> None:
    job = Job(4)
    job.sizes = {2, 3}
    job.join(0, 1, 2, 3)
    assert job.formed == [[0, 1, 2]]
    job.rounds.left(1)
    job.join(0, 2)
    assert job.formed[1:] == [[0, 2, 3]]


def test_without_an_allowed_size_the_job_is_over() -> None:
    job = Job(3)
    job.sizes = {3}
    job.join(0, 1, 2)
    job.rounds.left(1)
    job.join(0, 2)
    assert job.short


# -- failures that come of a loss -----------------------------------------------------------------


def test_a_failure_that_the_loss_of_a_node_has_brought_is_not_counted() -> None:
    job = running(3, restarts=1)
    assert job.rounds.failed("rank 1 exited 1", 1, 1)
    job.join(1)
    assert job.rounds.left(0)
    job.join(2)
    assert (job.formed[1:], job.needed[1:]) == ([[1, 2]], [0])
    assert job.rounds.failed("rank 1 exited 1", 1, 1), "the budget is whole"


def test_what_fails_behind_a_loss_is_not_counted() -> None:
    job = running(3, restarts=0)
    assert job.rounds.left(0)
    assert job.rounds.failed("rank 1 exited 1", 1, 1)
    job.join(1, 2)
    assert job.needed[1:] == [0]


def test_a_failure_beyond_the_budget_may_be_a_loss() -> None:
    job = running(3, restarts=0)
    generation = job.rounds.generation
    assert not job.rounds.failed("rank 1 exited 1", 1, 1)
    assert job.rounds.may_be_loss()
    assert not job.rounds.shrunk(generation)
    job.rounds.hold(1.0)
    job.join(1, 2)
    assert job.rounds.left(0)
    assert job.rounds.shrunk(generation)
    assert len(job.formed) == 1
    job.clock.go(1)
    assert job.formed[1:] == [[1, 2]]


def test_what_fails_before_a_loss_does_not_shorten_a_hold() -> None:
    job = running(3, restarts=1)
    assert job.rounds.failed("rank 1 exited 1", 1, 1)
    job.join(1, 2)
    job.rounds.hold(2.0)
    assert job.rounds.left(0)
    job.clock.go(1)
    assert len(job.formed) == 1
    job.clock.go(1)
    assert job.formed[1:] == [[1, 2]]


def test_where_no_node_may_be_lost_a_failure_is_one() -> None:
    assert not running(2, least=2).rounds.may_be_loss()
    assert not running(1).rounds.may_be_loss()
    assert running(2, least=2, wait=5.0).rounds.may_be_loss()


# -- nodes that do not answer ---------------------------------------------------------------------


def test_a_member_that_does_not_get_ready_again_is_lost() -> None:
    job = running(3, patience=40.0)
    job.join(1, 2)
    job.clock.go(39)
    assert not job.lost
    job.clock.go(1)
    assert (job.lost, job.formed[1:]) == ([0], [[1, 2]])


def test_a_node_that_never_gets_ready_is_lost() -> None:
    job = Job(3)
    job.join(0, 2)
    job.clock.go(NEWCOMERS)
    assert (job.lost, job.formed) == ([1], [[0, 2]])


def test_patience_ends_with_its_round() -> None:
    job = running(2, patience=40.0)
    job.join(1, 0)
    job.clock.go(40)
    assert not job.lost


# -- whatever happens ---------------------------------------------------------------------------


class World(Job):
    """Nodes to which anything may happen, and what must hold of their rounds all the same."""

    def __init__(self, chance: random.Random) -> None:
        self.nodes = chance.randint(1, 6)
        self.least = chance.randint(1, self.nodes)
        self.most = chance.randint(self.least, self.nodes + 1)
        self.restarts = chance.randint(0, 4)
        super().__init__(self.nodes, self.least, self.most, self.restarts)
        self.chance = chance
        self.alive = set(range(self.nodes))
        self.ready: set[int] = set()
        self.finished: set[int] = set()
        self.members: set[int] = set()
        self.wanted: set[int] = set()
        self.calls = 0
        self.counted = -1
        self.over = False

    @property
    def busy(self) -> set[int]:
        """The members whose workers run."""
        return (self.members & self.alive) - self.ready

    def form(self, members: list[int], restarts: int) -> None:
        """Hold a round against all that is promised."""
        super().form(members, restarts)
        assert self.ready == self.alive, "a node that has not joined"
        assert members == sorted(self.alive)[: self.most]
        assert len(members) + len(self.finished) >= self.least
        assert restarts == self.rounds.restarts <= self.restarts
        self.members, self.wanted, self.calls = set(members), set(), len(self.called)
        self.ready -= self.members

    def step(self) -> None:
        """Let one thing happen, and look at what came of it."""
        node = self.chance.choice(sorted(self.alive - self.ready))
        if self.chance.random() < 0.1:
            node = self.chance.choice(sorted(self.alive))
            act = self.lose
        elif node in self.wanted or node not in self.members:
            act = self.chance.choice([self.come, self.come, self.fail, self.finish])
            act = act if node in self.members else self.come
        else:
            act = self.chance.choice([self.fail, self.finish, self.come])
        expected = self.busy - {node}
        before = len(self.called)
        act(node)
        if not self.over and not self.alive - self.ready:
            self.clock.go(LONGEST)
        if not self.over:
            self.check(expected, self.called[before:])

    def check(self, expected: set[int], new: list[list[int]]) -> None:
        """Hold the calls against all that is promised."""
        assert self.rounds.generation == len(self.formed)
        assert set(self.rounds.members) == self.members & (self.alive | self.finished)
        assert self.alive - self.ready, "all have joined, and no round was formed"
        assert all(set(one) == expected for one in new), "those that run, and nobody else"
        assert len(self.called) <= self.calls + 1, "called twice in a round"
        self.wanted = {node for one in self.called[self.calls :] for node in one}
        if self.members & self.ready or self.members - self.alive - self.finished:
            assert self.busy <= self.wanted, "others wait, and it was not called"

    def come(self, node: int) -> None:
        """A node's workers have been stopped, and its agent is ready."""
        self.ready.add(node)
        self.join(node)

    def lose(self, node: int) -> None:
        self.alive.discard(node)
        self.ready.discard(node)
        self.over = not self.rounds.left(node)
        assert self.over == (bool(self.finished) or len(self.alive) < self.least)

    def fail(self, node: int) -> None:
        generation, before = self.rounds.generation, self.rounds.restarts
        told = len(self.called) > self.calls
        self.over = not self.rounds.failed(f"node {node}", 1, node)
        counts = not self.over and self.counted != generation and not told
        assert self.rounds.restarts == before + counts
        spent = before == self.restarts or bool(self.finished)
        assert not self.over or (spent and self.counted != generation)
        self.counted = generation if counts else self.counted
        if not self.over:
            self.come(node)

    def finish(self, node: int) -> None:
        """A node's workers have ended well, perhaps before its call arrived."""
        self.alive.discard(node)
        self.finished.add(node)
        goes_on = self.rounds.done(node)
        self.over = not goes_on or not self.members & self.alive


@pytest.mark.parametrize("seed", range(20))
def test_whatever_happens_rounds_are_sound_and_nobody_waits_for_ever(seed: int) -> None:
    chance = random.Random(seed)
    rounds = 0
    for _ in range(100):
        world = World(chance)
        while not world.over:
            world.step()
        rounds += len(world.formed)
    assert rounds > 100, "the worlds were too dull to tell"
