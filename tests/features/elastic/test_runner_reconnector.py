"""Nodes that are to be reached: how many at a time, in which order, how often, and what is said."""

from __future__ import annotations

from itertools import pairwise

import pytest

from dsrun.launcher.features.elastic.runner_admission import PAUSES
from dsrun.launcher.features.elastic.runner_reconnector import AT_ONCE, PACE, PATIENCE, RETRIES

from ...support.reconnection import Job, hosts

# -- how many at a time -------------------------------------------------------------------------


@pytest.mark.parametrize(("room", "most"), [(3, 2), (8, 7), (1 << 30, AT_ONCE)])
def test_no_more_are_tried_than_the_job_can_take_and_a_few(room: int, most: int) -> None:
    job = Job(room, "n1")
    job.take(["n1", *hosts(3000)])
    assert job.names() == hosts(most)
    assert len(job.peers) == 1 + most, "the others cost nothing"
    job.fail("x1")
    job.go(1)
    assert job.names() == hosts(most + 1)


def test_who_is_in_takes_the_place_of_the_one_that_was_tried() -> None:
    job = Job(3, "n1")
    job.take(["n1", *hosts(10)])
    job.come("x1")
    job.go(1)
    assert job.names() == ["x0", "x1"], "one more is in, one is being tried: that will do"
    job.lose("x1")
    job.go(1)
    assert job.names() == ["x0", "x1", "x2"]


def test_those_that_were_in_come_first_and_need_no_room() -> None:
    job = Job(2, "n1", "n2", "n3")
    job.take(["n1", "n2", "n3", *hosts(10)])
    job.lose("n2")
    job.go(PAUSES.first + 1)
    assert job.names() == ["n2"]


def test_one_begins_after_the_other() -> None:
    job = Job(1 << 30)
    job.take(hosts(5))
    times = [at for at, _ in job.begun]
    assert [round((at - times[0]) / PACE) for at in times] == [0, 1, 2, 3, 4]


def test_who_does_not_answer_keeps_the_others_waiting_only_for_so_long() -> None:
    job = Job(1 << 30)
    job.take(hosts(40))
    job.go(PATIENCE - 10)
    assert job.names() == hosts(AT_ONCE)
    job.go(12)
    assert job.names() == hosts(2 * AT_ONCE), "nobody is tried twice meanwhile"


# -- again --------------------------------------------------------------------------------------


def test_few_are_tried_again_later_and_later() -> None:
    job = Job(9)
    job.dead = {"x0"}
    job.take(["x0"])
    job.go(130)
    times = [at for at, _ in job.begun]
    pauses = [after - before for before, after in pairwise(times)]
    assert pauses == pytest.approx(
        [PAUSES.first, 10, 20, PAUSES.longest, PAUSES.longest, PAUSES.longest], abs=2 * PACE
    )


def test_many_dead_hosts_are_tried_a_few_times_a_second() -> None:
    job = Job(9, "n1")
    job.dead = set(hosts(1000))
    job.take(["n1", *hosts(1000)])
    job.go(1000 * PACE)
    assert set(job.names()) == job.dead, "each was tried before the first is tried again"
    job.go(500)
    before = len(job.begun)
    job.go(60)
    assert 0.5 * 60 * RETRIES < len(job.begun) - before < 1.1 * 60 * RETRIES


def test_a_lost_node_does_not_wait_for_strangers() -> None:
    job = Job(9, "n1", "n2")
    job.dead = set(hosts(1000))
    job.take(["n1", "n2", *hosts(1000)])
    job.lose("n2")
    began = job.clock.now
    job.go(PAUSES.first + 1)
    (at,) = [at for at, name in job.begun if name == "n2"]
    assert at - began == pytest.approx(PAUSES.first, abs=2 * PACE)


def test_who_waits_for_its_turn_or_is_being_tried_is_not_tried_twice() -> None:
    job = Job(1 << 30, "n1")
    job.lose("n1")
    job.returns.expect(job.peers[0])
    job.go(PAUSES.first + 1)
    assert job.names() == ["n1"]
    job.returns.expect(job.peers[0])
    job.go(PAUSES.longest)
    assert job.names() == ["n1"], "that attempt is still under way"
