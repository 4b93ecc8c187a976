"""Nodes that are to be reached: how many at a time, in which order, how often, and what is said."""

from __future__ import annotations

import time
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest

from dsrun.launcher.head.elastic.membership import CHANGED, NEW, Roster
from dsrun.launcher.head.elastic.reconnector import (
    AT_ONCE,
    FIRST,
    LONGEST,
    PACE,
    PATIENCE,
    RETRIES,
    Returns,
)
from dsrun.launcher.head.elastic.unreached import Unreached, folded
from dsrun.launcher.head.fleet.node_connection import Peer
from dsrun.launcher.specs.host import Host
from dsrun.launcher.specs.plan import Node

from .clock import Clock

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dsrun.launcher.head.elastic.rounds import Rounds


class Job:
    """A job with room for some nodes, and hosts that may or may not be reached.

    Attributes:
        dead: hosts that cannot be reached, at once.
        begun: every attempt, with its time.
        trying: attempts that neither failed nor got through yet.
    """

    def __init__(self, room: int, *there: str, slots: tuple[int, ...] = (0,)) -> None:
        self.clock = Clock()
        self.room = room
        self.dead: set[str] = set()
        self.begun: list[tuple[float, str]] = []
        self.trying: dict[str, Peer] = {}
        self.said: list[str] = []
        self.peers: list[Peer] = []
        self.alive: set[str] = set(there)
        for name in there:
            self.add(Host(name, slots))
        self.returns = Returns(self.clock.loop, self.reach, self.left, self.next)
        self.roster = Roster(self.peers, self.rounds(), self.returns, self.add, self.said.append)

    def next(self) -> Peer | None:
        return self.roster.next()

    def rounds(self) -> Rounds:
        job = self

        class Retired:
            def retire(self, number: int) -> bool:
                job.alive.discard(job.peers[number].name)
                return True

        return Retired()  # type: ignore[return-value]

    def left(self) -> int:
        return self.room - len(self.alive)

    def add(self, host: Host) -> Peer:
        self.peers.append(Peer(Node(len(self.peers), host, None, host.slots)))
        return self.peers[-1]

    def reach(self, peer: Peer) -> None:
        self.begun.append((self.clock.now, peer.name))
        self.trying[peer.name] = peer
        if peer.name in self.dead:
            self.fail(peer.name)

    def fail(self, name: str) -> None:
        self.returns.failed(self.trying.pop(name))

    def come(self, name: str) -> None:
        peer = self.trying.pop(name)
        peer.lost = ""
        self.alive.add(name)
        self.returns.back(peer)

    def lose(self, name: str) -> None:
        (peer,) = [one for one in self.peers if one.name == name]
        self.alive.discard(name)
        peer.lost = "gone"
        self.roster.lost(peer)

    def take(self, names: Sequence[str]) -> None:
        """Have another list, and time for as many attempts as it may begin at once."""
        self.roster.take([Host(name, (0,)) for name in names])
        self.go(4 * AT_ONCE * PACE)

    def go(self, seconds: float) -> None:
        """Let time pass, step by step."""
        for _ in range(round(seconds / PACE)):
            self.clock.go(PACE)

    def names(self) -> list[str]:
        return [name for _, name in self.begun]


def hosts(count: int) -> list[str]:
    return [f"x{number}" for number in range(count)]


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
    job.go(FIRST + 1)
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
    assert pauses == pytest.approx([FIRST, 10, 20, LONGEST, LONGEST, LONGEST], abs=2 * PACE)


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
    job.go(FIRST + 1)
    (at,) = [at for at, name in job.begun if name == "n2"]
    assert at - began == pytest.approx(FIRST, abs=2 * PACE)


def test_a_list_that_changes_all_the_time_has_nobody_tried_more_often() -> None:
    """Not even one whose attempt has not ended."""
    job = Job(9, "n1")
    job.take(["n1", "x0", "x1"])
    job.fail("x0")
    for number in range(10):
        job.take(["n1", "x0", "x1", f"y{number}"])
    assert job.names().count("x1") == 1
    assert job.names().count("x0") < 4


# -- off the list -------------------------------------------------------------------------------


def test_who_is_off_the_list_is_not_tried_any_more() -> None:
    job = Job(2, "n1")
    job.dead = {"x0"}
    job.take(["n1", "x0"])
    job.take(["n1"])
    job.go(100)
    assert job.names() == ["x0"]
    job.take(["n1", "x0"])
    job.go(LONGEST)
    assert len(job.names()) > 1


def test_changed_slots_of_a_host_in_the_job_are_told_once() -> None:
    job = Job(9, "n1")
    for slots in (1, 2, 2, 3, 1):
        job.roster.take([Host("n1", tuple(range(slots)))])
    assert job.said == [f"n1: {CHANGED}"] * 2


# -- what it costs, and what is said ------------------------------------------------------------


def test_a_list_of_ten_thousand_is_taken_in_at_once() -> None:
    job = Job(8, "n1")
    listed = [Host(name, (0,)) for name in ["n1", *hosts(10_000)]]
    began = time.perf_counter()
    job.roster.take(listed)
    job.roster.take(listed[::-1])
    assert time.perf_counter() - began < 0.5
    assert [peer.lost for peer in job.peers] == ["", NEW]


def test_what_fails_together_is_one_line() -> None:
    clock = Clock()
    said: list[str] = []
    unreached = Unreached(clock.loop, said.append)
    unreached.add("n1", "no route")
    clock.go(1)
    for name in hosts(317):
        unreached.add(name, f"no answer in {name[1:]} s")
    for _ in range(100):
        clock.go(1)
    many = "317 hosts could not be reached: x0 .. x316: no answer in 0 s"
    assert said == ["n1: no route", many]


def test_an_endless_row_of_failures_is_told_of_less_and_less_often() -> None:
    clock = Clock()
    said: list[str] = []
    unreached = Unreached(clock.loop, said.append)
    for number in range(600):
        unreached.add(f"x{number}", "no route")
        clock.go(1)
    assert 5 < len(said) < 20
    assert said[-1].endswith("]: no route")


def test_hosts_of_one_cause_are_named() -> None:
    assert folded({"a": "off", "b": "off"}) == "a, b: off"
