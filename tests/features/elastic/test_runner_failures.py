"""The failures of a job: what they cost, and on which nodes they begin."""

from __future__ import annotations

from typing import Any

from dsrun.launcher.features.elastic.runner_failures import Failures
from dsrun.launcher.features.elastic.runner_round_state import NodeStates
from dsrun.launcher.specs.policies import ElasticPolicy

from ...support.clock import Clock


class Played:
    """Failures on a clock that goes when told."""

    def __init__(self, least: int = 1, **limits: Any) -> None:
        self.clock = Clock()
        self.said: list[str] = []
        policy = ElasticPolicy(least, 9, 3, **limits)
        self.failures = Failures(policy, lambda: self.clock.now, "n{}".format, self.said.append)


def test_each_costs_a_restart_and_more_time() -> None:
    played = Played()
    assert played.failures.survive("rank 1 exited 1", 1, 9.0)
    assert played.failures.not_before == played.clock.now
    assert played.failures.survive("rank 2 exited 1", 1, 9.0)
    assert played.failures.not_before == played.clock.now + 1
    assert played.said == [
        "restart 1/3: rank 1 exited 1",
        "restart 2/3: rank 2 exited 1; waiting 1 s",
    ]
    assert played.failures.restarts == 2


def test_one_that_a_loss_has_caused_is_taken_back() -> None:
    played = Played()
    for _ in range(2):
        played.failures.survive("rank 1 exited 1", 1, 9.0)
        played.failures.blame(1, NodeStates(3))
    played.failures.take_back()
    assert (played.failures.restarts, played.failures.not_before) == (1, 0.0)
    assert played.said[-1] == "that restart is not counted: a node was lost"


def test_the_third_in_a_row_excludes_a_node_if_the_others_are_enough() -> None:
    for least, excluded in ((2, True), (3, False)):
        played = Played(least, cool=60.0)
        blamed = [played.failures.blame(1, NodeStates(3)) for _ in range(3)]
        assert blamed == [False, False, excluded]
        assert played.failures.excluded == ({1} if excluded else set())
    played.clock.go(60)
    assert not played.failures.excluded


def test_excluded_nodes_that_are_gone_do_not_count_as_missing() -> None:
    played = Played(2, cool=60.0)
    nodes = NodeStates(4)
    assert [played.failures.blame(0, nodes) for _ in range(3)][-1]
    nodes.remove(0)
    played.clock.go(601)
    played.failures.survive("x", 1, 9.0)
    assert [played.failures.blame(1, nodes) for _ in range(3)][-1]


def test_work_that_was_done_too_soon_is_doubted() -> None:
    played = Played(uptime=5.0)
    played.failures.doubt(5.0)
    assert not played.said
    played.failures.doubt(1.0)
    text = "workers ended with code 0 after 1.0 s, sooner than --min_uptime 5"
    assert played.said == [f"{text}: was there nothing to do?"]
