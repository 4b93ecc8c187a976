"""How long a job waits for more nodes."""

from __future__ import annotations

from dsrun.launcher.head.elastic.min_nodes_wait import MinNodesWait
from dsrun.launcher.specs.policies import ElasticPolicy

from ...support.clock import Clock


class Played:
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
    played = Played(30.0)
    assert played.shortage.wait(2)
    played.clock.go(20)
    assert played.shortage.wait(1)
    assert played.said == ["2 nodes left for a round of at least 3: waiting 30 s for more"]
    played.clock.go(10)
    assert played.ends == 1


def test_a_round_ends_the_wait() -> None:
    played = Played(30.0)
    played.shortage.wait(2)
    played.shortage.end()
    played.clock.go(60)
    assert not played.ends
    assert played.shortage.wait(0), "the next one is another"
    assert len(played.said) == 2


def test_without_min_wait_there_is_no_time() -> None:
    played = Played(0.0)
    assert not played.shortage.wait(2)
    assert not played.said
