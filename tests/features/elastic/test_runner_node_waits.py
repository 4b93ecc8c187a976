"""How long a job waits for enough nodes, and for more of them."""

from __future__ import annotations

from dsrun.launcher.features.elastic.runner_node_waits import (
    LostTogether,
    MinNodesWait,
    ScaleUpDelay,
)
from dsrun.launcher.specs.policies import ElasticPolicy

from ...support.clock import Clock


class PlayedWait:
    """A job that needs three nodes, and what comes of having fewer."""

    def __init__(self, wait: float) -> None:
        self.clock = Clock()
        self.said: list[str] = []
        self.ends = 0
        limits = ElasticPolicy(3, 9, 0, wait=wait)
        self.shortage = MinNodesWait(self.clock.timers, limits, self.said.append, self.end)

    def end(self) -> None:
        self.ends += 1


def test_it_waits_once_and_in_vain() -> None:
    played = PlayedWait(30.0)
    assert played.shortage.wait(2)
    played.clock.go(20)
    assert played.shortage.wait(1)
    assert played.said == ["2 nodes left, but a round needs at least 3: waiting 30 s for more"]
    played.clock.go(10)
    assert played.ends == 1


def test_a_round_ends_the_wait() -> None:
    played = PlayedWait(30.0)
    played.shortage.wait(2)
    played.shortage.cancel()
    played.clock.go(60)
    assert not played.ends
    assert played.shortage.wait(0), "the next one is another"
    assert len(played.said) == 2


def test_without_min_wait_there_is_no_time() -> None:
    played = PlayedWait(0.0)
    assert not played.shortage.wait(2)
    assert not played.said


class PlayedDelay:
    """A delay of a minute, and what comes of it."""

    def __init__(self, seconds: float = 60.0) -> None:
        self.clock = Clock()
        self.over = 0
        self.said: list[str] = []
        self.delay = ScaleUpDelay(self.clock.timers, seconds, self.end, self.said.append)
        self.delay.start()

    def end(self) -> None:
        self.over += 1


def test_it_is_over_in_time() -> None:
    played = PlayedDelay()
    played.clock.go(10)
    assert (played.delay.left, played.delay.awaited) == (50.0, False)
    played.delay.wait(4)
    played.delay.wait(5)
    line = "a round of 4 nodes begins in 50 s, or when a worker prints something (--gain_delay)"
    assert (played.said, played.delay.awaited) == ([line], True)
    played.clock.go(49)
    assert not played.over
    played.clock.go(1)
    assert (played.over, played.delay.left, played.delay.awaited) == (1, 0.0, False)


def test_output_ends_it() -> None:
    played = PlayedDelay()
    played.delay.wait(2)
    played.delay.finish()
    played.clock.go(100)
    assert (played.over, played.delay.left) == (1, 0.0)


def test_output_that_nothing_waits_for_ends_it_for_those_to_come() -> None:
    played = PlayedDelay()
    played.delay.finish()
    assert (played.over, played.delay.left) == (0, 0.0)


def test_another_round_begins_it_anew() -> None:
    played = PlayedDelay()
    played.delay.wait(2)
    played.clock.go(30)
    played.delay.start()
    assert not played.delay.awaited
    played.clock.go(59)
    assert (played.over, round(played.delay.left)) == (0, 1)


def test_without_seconds_there_is_none() -> None:
    assert PlayedDelay(0.0).delay.left == 0.0


class PlayedLosses:
    """Nodes that are lost, and what comes of waiting for them for two minutes."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.over = 0
        self.said: list[str] = []
        self.lost = LostTogether(self.clock.timers, 120.0, self.end, self.said.append)

    def end(self) -> None:
        self.over += 1


def test_before_all_are_lost_none_is_waited_for() -> None:
    played = PlayedLosses()
    played.lost.lost(0, last=False)
    assert not played.lost.wait(9)
    played.lost.lost(1, last=True)
    assert played.lost.wait(9)
    assert not played.lost.wait(0), "a round has no room for it"


def test_who_was_lost_is_waited_for_once_and_until_found() -> None:
    played = PlayedLosses()
    played.lost.lost(0, last=False)
    played.clock.go(121)
    for node in (1, 2):
        played.lost.lost(node, last=node == 2)
    played.lost.found(2)
    assert all(played.lost.wait(9) for _ in range(2))
    assert played.said == ["all nodes of the round were lost: waiting 120 s for 1 more to return"]
    played.lost.found(1)
    assert not played.lost.wait(9), "the other was lost long before"


def test_the_time_for_lost_nodes_ends_once() -> None:
    played = PlayedLosses()
    played.lost.lost(0, last=True)
    played.lost.wait(9)
    played.clock.go(120)
    assert played.over == 1
    assert not played.lost.wait(9)
    played.clock.go(120)
    assert played.over == 1
